import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The channel on which proxies ask each other to cancel what a session does, each time a CancelAsked as JSON. */
export const CANCELS = 'cancel'

export interface CancelAsked {
  /** A keyed hash of the session's key, never the key. */
  readonly name: string
  /** Where the request came from. */
  readonly address: string | undefined
}

/** Asks all proxies, this one too, each to cancel what it has. */
export async function askToCancel(db: Db, all: readonly CancelAsked[]): Promise<void> {
  const payloads = all.map((asked) => JSON.stringify(asked))
  await db.rows(sql`select pg_notify(${CANCELS}, payload) from unnest(${payloads}::text[]) payload`)
}
