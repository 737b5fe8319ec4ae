import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A data directory of Postgres on one host. */
export interface Store {
  readonly id: string
  readonly number: number
  readonly branch_id: string
  readonly host_id: string
  readonly kind: 'branch'
  readonly parent_id: string | null
  readonly made_from: 'template' | 'clone'
  readonly state: 'init' | 'ready'
  /** The bytes of its files when it was last measured. */
  readonly bytes: number | null
  readonly measured_at: string | null
  readonly created_at: string
}

export async function setStoreReady(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`update store set state = 'ready' where id = ${id}`)
}

/** Exchanges the stores of two branches. No compute may run on either. */
export async function exchangeStores(tx: Db, one: string, other: string): Promise<void> {
  await tx.rows(sql`
    with exchanged as (
      update store s set branch_id = case s.branch_id when ${one} then ${other} else ${one} end
       where s.id in (select store_id from branch where id = any (${[one, other]}::text[])))
    update branch b set store_id = counterpart.store_id, logical_bytes = counterpart.logical_bytes
      from branch counterpart
     where b.id = any (${[one, other]}::text[]) and counterpart.id = any (${[one, other]}::text[])
       and b.id <> counterpart.id`)
}

/** Those of the stores that belong to no branch. */
export async function listUnknownStores(db: Db, storeIds: readonly string[]): Promise<string[]> {
  const rows = await db.rows<{ id: string }>(sql`
    select found.id from unnest(${storeIds}::text[]) found (id)
     where not exists (select 1 from store s where s.id = found.id) order by found.id`)
  return rows.map(({ id }) => id)
}

/** Those of the stores on which no compute of an endpoint is recorded as running. */
export function listUnserved(db: Db, storeIds: readonly string[]): Promise<Pick<Store, 'id' | 'number'>[]> {
  return db.rows(sql`
    select id, number from store s
     where id = any (${storeIds}::text[])
       and not exists (select from compute c where c.store_id = s.id and c.ended_at is null)`)
}

/** How often the store of a running compute is measured. */
const RUNNING_MINUTES = 15

/** Ready stores of a host that were not measured since their last compute ended, or not lately; `limit` of each. */
export function listUnmeasured(db: Db, hostId: string, limit: number): Promise<Pick<Store, 'id'>[]> {
  return db.rows(sql`
    (select id from store where host_id = ${hostId} and state = 'ready' and measured_at is null limit ${limit})
    union
    (select s.id from compute c join store s on s.id = c.store_id
      where c.host_id = ${hostId} and c.ended_at is null
        and s.measured_at < clock_timestamp() - make_interval(mins => ${RUNNING_MINUTES}) limit ${limit})`)
}

/** The stores of running computes on a host whose sizes are limited, those first measured longest ago. */
export function listLimited(db: Db, hostId: string): Promise<{ id: string; compute_id: string }[]> {
  return db.rows(sql`
    select s.id, c.id as compute_id
      from compute c join store s on s.id = c.store_id join branch b on b.store_id = s.id
      join project p on p.id = b.project_id join endpoint e on e.id = c.endpoint_id
     where c.host_id = ${hostId} and c.ended_at is null
       and (e.writes_refused is not null
            or p.settings ? 'quota' and (p.settings -> 'quota' ->> 'logical_size_bytes')::float8 > 0)
     order by s.measured_at nulls first`)
}

/** The size of a store; the least one, when there were too many files to count. */
interface MeasuredSize {
  readonly bytes: number
  readonly logicalBytes: number
  readonly isWhole: boolean
}

/** How often the changed bytes of a running compute's store and its history are kept, for hours of use. */
const BYTES_MINUTES = 5

/**
 * Records the size of a store, and whether clones of it take long. Without a size, which could not be measured, the
 * last one remains. Skips a branch that a step has locked.
 */
export async function setMeasured(db: Db, id: string, size: MeasuredSize | undefined, isSlow = false): Promise<void> {
  const { bytes, logicalBytes, isWhole } = size ?? { bytes: 0, logicalBytes: 0, isWhole: false }
  await db.rows(sql`
    with measured as (
      update branch set logical_bytes = case when ${isWhole}::bool then ${logicalBytes}::int8
                                             else greatest(logical_bytes, ${logicalBytes}::int8) end
       where id in (select id from branch where store_id = ${id} for no key update skip locked)
         and logical_bytes is distinct from ${logicalBytes}::int8 and ${size !== undefined})
    update store s
       set bytes = case when counts then case when ${isWhole}::bool then ${bytes}::int8
                                              else greatest(s.bytes, ${bytes}::int8) end
                        else s.bytes end,
           counted_history_bytes = case when counts then s.history_bytes + (
                                          select coalesce(sum(bytes), 0)::int8 from base where store_id = s.id)
                                        else s.counted_history_bytes end,
           is_slow = ${isSlow}, measured_at = clock_timestamp()
      from (select ${size !== undefined} and not exists (
              select from store o join compute c on c.store_id = o.id and c.ended_at is null
                join storage_size z on z.branch_id = o.branch_id
                join branch b on b.id = z.branch_id and b.project_id = z.project_id
               where o.id = ${id}
                 and z.since > clock_timestamp() - make_interval(mins => ${BYTES_MINUTES}))) due (counts)
     where s.id = ${id}`)
}
