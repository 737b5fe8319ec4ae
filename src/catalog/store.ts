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
    update branch b set store_id = counterpart.store_id from branch counterpart
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

/** How often the store of a running compute is measured. */
const RUNNING_MINUTES = 15

/** Ready stores of a host to be measured: not since their last compute ended, or not lately; at most `limit`. */
export function listUnmeasured(db: Db, hostId: string, limit: number): Promise<Pick<Store, 'id'>[]> {
  return db.rows(sql`
    (select id from store where host_id = ${hostId} and state = 'ready' and measured_at is null limit ${limit})
    union
    (select s.id from compute c join store s on s.id = c.store_id
      where c.host_id = ${hostId} and c.ended_at is null
        and s.measured_at < clock_timestamp() - make_interval(mins => ${RUNNING_MINUTES}) limit ${limit})`)
}

export async function setMeasured(db: Db, id: string, bytes: number | null): Promise<void> {
  await db.rows(sql`update store set bytes = ${bytes}, measured_at = clock_timestamp() where id = ${id}`)
}
