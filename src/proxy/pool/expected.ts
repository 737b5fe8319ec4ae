/*
 * The responses that a server connection still owes, in the order of the messages (Postgres manual, "Pipelining",
 * "Extended Query"). The pooler adds messages of its own, and no client gets their responses. It answers some client
 * messages itself, at the position where the server's response would have come.
 */
import {
  BIND_COMPLETE,
  CLOSE_COMPLETE,
  COMMAND_COMPLETE,
  EMPTY_QUERY,
  NO_DATA,
  PARSE_COMPLETE,
  PORTAL_SUSPENDED,
  ROW_DESCRIPTION,
} from '../wire/message_types.ts'
import { errorFields } from '../wire/messages.ts'
import type { PooledStatement } from './statements.ts'

/** Kinds of messages, by the end of their response. */
export type Kind = 'parse' | 'bind' | 'describe' | 'execute' | 'close' | 'sync' | 'query' | 'copy_end'

/** An error response of a server. */
export interface Refused {
  /** SQLSTATE. */
  readonly code: string
  readonly text: string
}

/** Severity, SQLSTATE and text of an ErrorResponse. */
export const refusedBy = (body: Buffer): Refused & { readonly severity: string } => {
  const fields = errorFields(body)
  return { severity: fields.get('V') ?? '', code: fields.get('C') ?? '', text: fields.get('M') ?? '' }
}

export interface Expected {
  readonly kind: Kind
  /** Sent by the pooler: no client gets the response. */
  readonly hidden?: boolean
  /** Not sent to the server: the response that the client gets at this position. */
  readonly instead?: Buffer
  /** The statement that a Parse creates, or a Close removes. */
  readonly statement?: PooledStatement
  /** The client's name for it, if the client sent the Parse. */
  readonly name?: string
  /** Called at ReadyForQuery, with the error if the message failed. */
  readonly onAnswer?: (refused: Refused | undefined) => void
  /** Called when the response is complete. */
  readonly onDone?: () => void
  /** Called when a batch has failed at this message (`failed`) or before it. */
  readonly onDropped?: (failed: boolean) => void
}

/** The kind of message of the extended protocol whose response a message type ends. */
const ENDS: ReadonlyMap<number, Kind> = new Map([
  [PARSE_COMPLETE, 'parse'],
  [BIND_COMPLETE, 'bind'],
  [CLOSE_COMPLETE, 'close'],
  [ROW_DESCRIPTION, 'describe'],
  [NO_DATA, 'describe'],
  [COMMAND_COMPLETE, 'execute'],
  [EMPTY_QUERY, 'execute'],
  [PORTAL_SUSPENDED, 'execute'],
])

/** Whether a message ends the response to a message of that kind; false for kinds that only ReadyForQuery ends. */
export const endsAnswer = (type: number, kind: Kind): boolean => ENDS.get(type) === kind

export const HIDDEN_QUERY: Expected = { kind: 'query', hidden: true }
/* The messages of a session reset. */
export const RESET_PARSE: Expected = { kind: 'parse', hidden: true }
export const RESET_BIND: Expected = { kind: 'bind', hidden: true }
export const RESET_EXECUTE: Expected = { kind: 'execute', hidden: true }
export const RESET_SYNC: Expected = { kind: 'sync', hidden: true }

export interface ExpectedQueue {
  readonly length: number
  head(): Expected | undefined
  push(entry: Expected): void
  shift(): Expected | undefined
  /** Removes the entries from the head up to the first Sync, which stays. */
  dropToSync(): Expected[]
  /**
   * Removes the Syncs behind the head that the server ignores during a COPY. Returns whether the end of the COPY has
   * been sent too.
   */
  dropCopySyncs(): boolean
  all(): readonly Expected[]
}

/** A queue with a moving head: answered entries are cut off in batches. */
export function createExpectedQueue(): ExpectedQueue {
  let entries: Expected[] = []
  let at = 0

  return {
    get length() {
      return entries.length - at
    },
    head: () => entries[at],
    push: (entry) => void entries.push(entry),
    shift() {
      const entry = entries[at]
      if (entry === undefined) return undefined
      at++
      if (at === entries.length) {
        entries.length = 0
        at = 0
      } else if (at > 1_000) {
        entries = entries.slice(at)
        at = 0
      }
      return entry
    },
    dropToSync() {
      const sync = entries.findIndex((entry, index) => index >= at && entry.kind === 'sync')
      const dropped = entries.slice(at, sync < 0 ? entries.length : sync)
      at += dropped.length
      return dropped
    },
    dropCopySyncs() {
      const rest = entries.slice(at + 1)
      const end = rest.findIndex(({ kind }) => kind === 'copy_end')
      const during = end < 0 ? rest : rest.slice(0, end)
      const after = end < 0 ? [] : rest.slice(end + 1)
      entries = [...entries.slice(at, at + 1), ...during.filter(({ kind }) => kind !== 'sync'), ...after]
      at = 0
      return end >= 0
    },
    all: () => entries.slice(at),
  }
}
