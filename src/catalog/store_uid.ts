import { randomInt } from 'node:crypto'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The uids that a host gives to stores, both included. */
interface GivenUids {
  readonly first: number
  readonly last: number
}

const UNIQUE_VIOLATION = '23505'
/** Limit of stores for one statement that records their uids. */
const BATCH = 500

/**
 * Gives a store a uid that no other store of its host has; undefined when all are given. A random one, since a uid that
 * was freed a moment ago may still own what its processes have left. Call outside of the transaction that depends on
 * it: a uid that has owned files must not be given to another store after a rollback.
 */
export async function giveUid(db: Db, hostId: string, storeId: string, uids: GivenUids): Promise<number | undefined> {
  for (;;) {
    try {
      return await insertFreeUid(db, hostId, storeId, uids)
    } catch (error) {
      // Another store was given it at the same moment.
      if ((error as { code?: unknown }).code !== UNIQUE_VIOLATION) throw error
    }
  }
}

async function insertFreeUid(
  db: Db,
  hostId: string,
  storeId: string,
  { first, last }: GivenUids,
): Promise<number | undefined> {
  const begin = randomInt(first, last + 1)
  const isFree = (uid: unknown) =>
    sql`not exists (select from store_uid u where u.host_id = ${hostId} and u.uid = ${uid}::int8)`
  /** The first free uid behind a given one within these bounds. */
  const behind = (from: number, to: number) => sql`
    (select g.uid + 1 from store_uid g
      where g.host_id = ${hostId} and g.uid >= ${from}::int8 and g.uid < ${to}::int8
        and not exists (select from store_uid u where u.host_id = g.host_id and u.uid = g.uid + 1)
      order by g.uid limit 1)`
  const row = await db.row<{ uid: number }>(sql`
    with own as (select uid from store_uid where store_id = ${storeId}),
    free (uid) as (
      select ${begin}::int8 where ${isFree(begin)}
      union all ${behind(begin, last)}
      union all select ${first}::int8 where ${isFree(first)}
      union all ${behind(first, last)}),
    given as (
      insert into store_uid (host_id, uid, store_id)
      select ${hostId}, uid, ${storeId} from free where not exists (select from own) limit 1
      returning uid)
    select uid from own union all select uid from given`)
  return row?.uid
}

/**
 * Records the uids of the stores on a host's disk that have none recorded, and frees those of directories that are
 * gone. Of stores with one uid the first that the catalog knows keeps it; the others are given one at their next start,
 * and so are stores with a uid outside the host's range.
 * @param visitStored calls its argument with the ids of all stores on the disk, a batch at a time
 */
export async function recordUids(
  db: Db,
  hostId: string,
  { first, last }: GivenUids,
  visitStored: (visit: (ids: readonly string[]) => Promise<void>) => Promise<void>,
  uidOf: (id: string) => Promise<number | undefined>,
): Promise<void> {
  await db.rows(sql`
    delete from store_uid u where u.host_id = ${hostId} and u.uid not between ${first}::int8 and ${last}::int8`)
  const unknown = await db.rows<{ id: string }>(sql`
    select u.store_id as id from store_uid u
     where u.host_id = ${hostId} and not exists (select from store s where s.id = u.store_id)`)
  const removed = new Set(unknown.map(({ id }) => id))
  const unrecorded: { id: string; number: number | null }[] = []
  await visitStored(async (ids) => {
    const found = await db.rows<{ id: string; number: number | null }>(sql`
      select found.id, s.number from unnest(${ids}::text[]) found (id) left join store s using (id)
       where not exists (select from store_uid u where u.store_id = found.id)
         and coalesce(s.host_id, ${hostId}) = ${hostId}`)
    unrecorded.push(...found)
    for (const id of ids) removed.delete(id)
  })
  await db.rows(sql`delete from store_uid where host_id = ${hostId} and store_id = any (${[...removed]}::text[])`)
  unrecorded.sort((one, other) => (one.number ?? Infinity) - (other.number ?? Infinity) || 0)
  while (unrecorded.length > 0) {
    const batch = unrecorded.splice(0, BATCH).map(({ id }) => id)
    const found = await Promise.all(batch.map(uidOf))
    await db.rows(sql`
      insert into store_uid (host_id, uid, store_id)
      select ${hostId}, uid, id
        from unnest(${batch}::text[], ${found.map((uid) => uid ?? null)}::int8[]) found (id, uid)
       where uid between ${first}::int8 and ${last}::int8
      on conflict do nothing`)
  }
}
