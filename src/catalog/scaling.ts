import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A change of the size of a running compute. */
export interface Scaling {
  readonly id: number
  readonly endpoint_id: string
  readonly compute_id: string
  readonly from_cu: number
  readonly to_cu: number
  /** What it wanted, where its host had less room; null: that is what it got. */
  readonly wanted_cu: number | null
  readonly reason: 'request' | 'cpu' | 'memory' | 'cache' | 'less_use'
  /** What was measured before it; null for a request. */
  readonly figures: Readonly<Record<string, number>> | null
  readonly scaled_at: string
}

/** An active endpoint whose compute is kept at its size. */
export interface SizedEndpoint {
  readonly id: string
  readonly compute_id: string
  readonly min_cu: number
  readonly max_cu: number
  readonly cu: number
  readonly limit_error: string | null
  /** The size that it wants, as long as its host has less room; null: it has it. */
  readonly wanted_cu: number | null
}

/** The active endpoints with a compute on this host: those among `ids`, or all. */
export function listSized(db: Db, hostId: string, ids?: readonly string[]): Promise<SizedEndpoint[]> {
  return db.rows(sql`
    select e.id, c.id as compute_id, e.min_cu, e.max_cu, e.cu, e.limit_error, e.wanted_cu
      from compute c join endpoint e on e.compute_id = c.id
     where c.host_id = ${hostId} and c.ended_at is null and e.current_state = 'active' and e.deleted_at is null
       and (${ids}::text[] is null or e.id = any (${ids}::text[]))`)
}

/** A new size that a running compute wants. */
export type WantedScaling = Pick<Scaling, 'endpoint_id' | 'compute_id' | 'from_cu' | 'reason' | 'figures'> & {
  readonly wanted_cu: number
}

/**
 * Resizes a running compute to what it wants, or to what its host has room for, and records it. Returns its size;
 * undefined, without a change, when the endpoint has another compute or size by now, or other limits.
 */
export async function scale(db: Db, wanted: WantedScaling): Promise<number | undefined> {
  const { endpoint_id, compute_id, from_cu, wanted_cu, reason, figures } = wanted
  const row = await db.row<{ cu: number | null }>(sql`
    select scale_endpoint(${endpoint_id}, ${compute_id}, ${from_cu}, ${wanted_cu}, ${reason},
                          ${figures && JSON.stringify(figures)}::jsonb) as cu`)
  return row?.cu ?? undefined
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

/** The latest changes of an endpoint's size in a time (RFC 3339), newest first. */
export function listScalingsIn(
  db: Db,
  endpointId: string,
  from: string,
  to: string,
  limit: number,
): Promise<Scaling[]> {
  return db.rows(sql`
    select * from scaling
     where endpoint_id = ${endpointId} and scaled_at >= ${from}::timestamptz and scaled_at < ${to}::timestamptz
     order by scaled_at desc limit ${limit}`)
}

/** Removes up to `limit` records that are at least `days` old. Returns how many it removed. */
export async function expireScalings(db: Db, days: number, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from scaling where id in (
      select id from scaling where scaled_at < statement_timestamp() - make_interval(days => ${days})
       order by scaled_at limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
