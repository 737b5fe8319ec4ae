import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A change of the size of a running compute. */
export interface Scaling {
  readonly id: number
  readonly endpoint_id: string
  readonly compute_id: string
  readonly from_cu: number
  readonly to_cu: number
  readonly reason: 'request' | 'cpu' | 'memory' | 'cache' | 'less_use'
  /** What was measured before it; null for a request. */
  readonly figures: Readonly<Record<string, number>> | null
  readonly scaled_at: string
}

/** An active endpoint whose compute may have to be resized: it autoscales, or is not held to its size. */
export interface ResizableEndpoint {
  readonly id: string
  readonly compute_id: string
  readonly min_cu: number
  readonly max_cu: number
  readonly cu: number
  readonly limit_error: string | null
}

/** The resizable endpoints with a compute on this host: those among `ids`, or all. */
export function listResizable(db: Db, hostId: string, ids?: readonly string[]): Promise<ResizableEndpoint[]> {
  return db.rows(sql`
    select e.id, c.id as compute_id, e.min_cu, e.max_cu, e.cu, e.limit_error
      from compute c join endpoint e on e.compute_id = c.id
     where c.host_id = ${hostId} and c.ended_at is null and e.current_state = 'active' and e.deleted_at is null
       and (e.min_cu < e.max_cu or e.limit_error is not null)
       and (${ids}::text[] is null or e.id = any (${ids}::text[]))`)
}

/**
 * Changes the size of a running compute and records it. Returns false, without a change, when the endpoint has another
 * compute or size by now.
 */
export async function scale(db: Db, change: Omit<Scaling, 'id' | 'scaled_at'>): Promise<boolean> {
  const row = await db.row(sql`
    with scaled as (
      update endpoint set cu = ${change.to_cu}
       where id = ${change.endpoint_id} and compute_id = ${change.compute_id} and cu = ${change.from_cu}
         and ${change.to_cu}::float8 between min_cu and max_cu and deleted_at is null
      returning id)
    insert into scaling (endpoint_id, compute_id, from_cu, to_cu, reason, figures)
    select id, ${change.compute_id}, ${change.from_cu}, ${change.to_cu}, ${change.reason},
           ${change.figures && JSON.stringify(change.figures)}::jsonb
      from scaled
    returning 1`)
  return row !== undefined
}

/** Records a change of size that a request makes. */
export async function recordScaling(tx: Db, change: Omit<Scaling, 'id' | 'scaled_at' | 'figures'>): Promise<void> {
  await tx.rows(sql`
    insert into scaling (endpoint_id, compute_id, from_cu, to_cu, reason)
    values (${change.endpoint_id}, ${change.compute_id}, ${change.from_cu}, ${change.to_cu}, ${change.reason})`)
}

/** The changes of an endpoint's size, newest first, before the one with the id `before`. */
export function listScalings(
  db: Db,
  endpointId: string,
  before: number | undefined,
  limit: number,
): Promise<Scaling[]> {
  return db.rows(sql`
    select * from scaling where endpoint_id = ${endpointId} and id < coalesce(${before}, 9223372036854775807)
     order by id desc limit ${limit}`)
}

/** Removes records that are at least `days` old. */
export async function expireScalings(db: Db, days: number): Promise<void> {
  await db.rows(sql`delete from scaling where scaled_at < clock_timestamp() - make_interval(days => ${days})`)
}
