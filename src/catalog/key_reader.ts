import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The channel that notifies parts of changed keys. */
export const KEYS_CHANGED = 'keys_changed'

const PREFIX = 'neap keys'

/** The application name of a part's listening session, so that pg_stat_activity shows which keys the part has read. */
export const sessionName = (part: string, revision: number): string => `${PREFIX} ${part} ${revision}`

export interface KeyReader {
  readonly part: string
  readonly revision: number
  /** Empty for a part on the catalog's own machine. */
  readonly address: string
}

/** The running parts, and the revision of the keys that each has read (Postgres manual, pg_stat_activity). */
export async function keyReaders(db: Db): Promise<KeyReader[]> {
  const rows = await db.rows<{ name: string; address: string }>(sql`
    select application_name as name, coalesce(host(client_addr), '') as address from pg_stat_activity
     where datname = current_database() and application_name like ${`${PREFIX} %`} order by 1`)
  return rows.map(({ name, address }) => {
    const [part = '', revision] = name.slice(PREFIX.length + 1).split(' ')
    return { part, revision: Number(revision), address }
  })
}

/** Notifies all parts that keys were changed. */
export async function notifyKeysChanged(db: Db): Promise<void> {
  await db.rows(sql`select pg_notify(${KEYS_CHANGED}, '')`)
}
