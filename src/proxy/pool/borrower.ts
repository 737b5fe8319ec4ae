import type { Expected, Refused } from './expected.ts'
import type { PooledStatement } from './statements.ts'

/** The client that has a server just now. */
export interface Borrower {
  /** Answers false if it cannot take more for now; `resume` of the server tells that it can. */
  receive(bytes: Buffer): boolean
  /** A setting that it has changed, or that was changed for it. */
  parameter(name: string, value: string): void
  /** Everything is answered, outside of a transaction. */
  settled(): void
  /** Everything is answered, within a transaction. */
  answered(): void
  lost(loss: Loss): void
  /** The server takes bytes again. */
  drained(): void
  /** The Parse by which it gave a name failed. */
  unprepared(statement: PooledStatement, name: string): void
  /** It had all statements forgotten. */
  deallocated(): void
  /** It had its session reset. */
  discarded(): void
  /** The reset ahead of its first bytes has succeeded: it may send more. */
  onReset(): void
}

/** What the unnamed statement of a client was changed to: another object with each change, be it to the same text. */
export interface Unnamed {
  /** False once it was closed, or failed. */
  exists: boolean
  /** Makes it at another server; nothing where there is none, or it is too long to be kept for that. */
  parse: Buffer | undefined
  /** What it was changed from, until the server has answered that. */
  was?: Unnamed | undefined
  /** The server has passed over the change. */
  isDropped?: boolean
}

/** How a server ended. */
export interface Loss {
  /** What it said last, if it did. */
  readonly said: Refused | undefined
  readonly computePid: number | undefined
  /** Whether the borrower was sent anything. */
  readonly answered: boolean
  /**
   * Whether it said that its reset failed, or that it ends before that was done: nothing of what the borrower sent has been run then. A
   * connection that just breaks off says neither, since Postgres may have run a query whose answer, and that to the reset, were never sent.
   */
  readonly unrun: boolean
  /** Whether it was sent the beginning of a message only. */
  readonly midMessage: boolean
  /** Whether a part of a batch was sent to it, and no Sync behind that. */
  readonly inBatch: boolean
  /** The state of its transaction when the server was last ready. */
  readonly status: number
  readonly unanswered: readonly Expected[]
}
