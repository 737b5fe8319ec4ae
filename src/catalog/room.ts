import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/**
 * Gives the compute of an endpoint room on a host, in order. Returns undefined when it has room, or for how many
 * seconds it has waited. Call outside the transaction of a step: the host's row stays locked until its end.
 */
export async function takeRoom(db: Db, endpointId: string, hostId: string): Promise<number | undefined> {
  const row = await db.row<{ waited: number | null }>(sql`select take_room(${endpointId}, ${hostId}) as waited`)
  return row?.waited ?? undefined
}

/** Leaves the room of an endpoint whose compute has not become its own. */
export async function leaveRoom(tx: Db, endpointId: string): Promise<void> {
  await tx.rows(sql`update endpoint set room_host_id = null, waits_since = null where id = ${endpointId}`)
}

/** The room of a host in CU, in all; undefined when it is not limited. */
export async function capacityOf(db: Db, hostId: string): Promise<number | undefined> {
  const row = await db.row<{ capacity_cu: number | null }>(sql`select capacity_cu from host where id = ${hostId}`)
  return row?.capacity_cu ?? undefined
}
