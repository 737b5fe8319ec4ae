import type { Db } from './catalog.ts'
import { livingProxies } from './proxy.ts'
import { sql } from './sql.ts'

/** The channel on which a proxy asks all proxies to cancel a session's query; the payload is a CancelAsked as JSON. */
export const CANCELS = 'cancel'

/** The channel on which each proxy answers each request, with a CancelAnswer as JSON. */
export const CANCEL_ANSWERS = 'cancel_answer'

export interface CancelAsked {
  /** Id of the request. */
  readonly id: string
  /** A keyed hash of the session's key, never the key. */
  readonly name: string
  /** The client's address. */
  readonly address: string | undefined
}

export interface CancelAnswer {
  readonly id: string
  /** Whether the answering proxy has the session and has cancelled its query. */
  readonly isHere: boolean
}

/** Sends cancel requests to all proxies, including this one. Returns the number of proxies that will answer. */
export async function askToCancel(db: Db, all: readonly CancelAsked[]): Promise<number> {
  const payloads = all.map((asked) => JSON.stringify(asked))
  await db.rows(sql`select pg_notify(${CANCELS}, payload) from unnest(${payloads}::text[]) payload`)
  return await livingProxies(db)
}

export async function answerCancels(db: Db, all: readonly CancelAnswer[]): Promise<void> {
  const payloads = all.map((answer) => JSON.stringify(answer))
  await db.rows(sql`select pg_notify(${CANCEL_ANSWERS}, payload) from unnest(${payloads}::text[]) payload`)
}
