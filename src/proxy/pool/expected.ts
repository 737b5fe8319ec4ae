/*
 * What a server has yet to answer, in the order in which it was asked (Postgres manual, "Pipelining", "Extended Query"). The pooler adds
 * questions of its own, whose answers no client sees, and answers some itself in the place where the server's answer would have come.
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
} from '../message_types.ts'
import type { PooledStatement } from './statements.ts'

/** What ends the answer to each kind of question. */
export type Kind = 'parse' | 'bind' | 'describe' | 'execute' | 'close' | 'sync' | 'query' | 'copy_end'

/** An error that a server answered with. */
export interface Refused {
  /** SQLSTATE. */
  readonly code: string
  readonly text: string
}

export interface Expected {
  readonly kind: Kind
  /** Asked by the pooler: the answer goes to nobody. */
  readonly hidden?: boolean
  /** Never asked: what the client gets in this place. */
  readonly instead?: Buffer
  /** What a Parse makes, or a Close undoes. */
  readonly statement?: PooledStatement
  /** What the client calls it, where it has asked for it by a Parse. */
  readonly name?: string
  /** Told when it has been answered, and if it failed, of the error. */
  readonly onAnswer?: (refused: Refused | undefined) => void
  /** Told that it has been done. */
  readonly onDone?: () => void
  /** Told that a batch has failed at this, or before it came to it. */
  readonly onDropped?: (failed: boolean) => void
}

/** The kind of question of the extended protocol whose answer a message ends. */
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

/** Whether a message ends the answer to a question of that kind, but for those that only ReadyForQuery ends. */
export const endsAnswer = (type: number, kind: Kind): boolean => ENDS.get(type) === kind

export const HIDDEN_QUERY: Expected = { kind: 'query', hidden: true }
/* What a reset is made of. */
export const RESET_PARSE: Expected = { kind: 'parse', hidden: true }
export const RESET_BIND: Expected = { kind: 'bind', hidden: true }
export const RESET_EXECUTE: Expected = { kind: 'execute', hidden: true }
export const RESET_SYNC: Expected = { kind: 'sync', hidden: true }

export interface ExpectedQueue {
  readonly length: number
  head(): Expected | undefined
  push(entry: Expected): void
  shift(): Expected | undefined
  /** Takes out, from the head on, all up to the first Sync, which stays. */
  dropToSync(): Expected[]
  /** Takes out the Syncs behind the head that a server reads, and passes over, while it takes in a COPY. Answers whether the end of that has been sent too. */
  dropCopySyncs(): boolean
  all(): readonly Expected[]
}

/** A queue whose head moves: what is answered is cut off now and then, not each time. */
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
