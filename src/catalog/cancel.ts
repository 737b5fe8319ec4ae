import type { Db } from './catalog.ts'
import { livingProxies } from './proxy.ts'
import { sql } from './sql.ts'

/** The channel on which proxies ask each other to cancel what a session does, each time a CancelAsked as JSON. */
export const CANCELS = 'cancel'

/** The channel on which each proxy answers every one of those, with a CancelAnswer as JSON. */
export const CANCEL_ANSWERS = 'cancel_answer'

export interface CancelAsked {
  /** Which request it is. */
  readonly id: string
  /** A keyed hash of the session's key, never the key. */
  readonly name: string
  /** Where the request came from. */
  readonly address: string | undefined
}

export interface CancelAnswer {
  readonly id: string
  /** Whether the proxy that answers has the session, and has cancelled what it did. */
  readonly isHere: boolean
}

/** Asks all proxies, this one too, each to cancel what it has. Answers how many there are to answer. */
export async function askToCancel(db: Db, all: readonly CancelAsked[]): Promise<number> {
  const payloads = all.map((asked) => JSON.stringify(asked))
  await db.rows(sql`select pg_notify(${CANCELS}, payload) from unnest(${payloads}::text[]) payload`)
  return await livingProxies(db)
}

export async function answerCancels(db: Db, all: readonly CancelAnswer[]): Promise<void> {
  const payloads = all.map((answer) => JSON.stringify(answer))
  await db.rows(sql`select pg_notify(${CANCEL_ANSWERS}, payload) from unnest(${payloads}::text[]) payload`)
}
