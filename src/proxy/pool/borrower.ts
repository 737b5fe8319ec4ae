import type { Expected, Refused } from './expected.ts'
import type { PooledStatement } from './statements.ts'

/** The client to which a server connection is lent. */
export interface Borrower {
  /** Returns false when the client cannot take more bytes for now; `resume` of the server connection continues. */
  receive(bytes: Buffer): boolean
  /** A setting that the client has changed, or that was changed for it. */
  parameter(name: string, value: string): void
  /** All messages are answered, and no transaction is open. */
  settled(): void
  /** All messages are answered, within a transaction. */
  answered(): void
  lost(loss: Loss): void
  /** The server connection accepts bytes again. */
  drained(): void
  /** The Parse that gave a name failed or was skipped. */
  unprepared(statement: PooledStatement, name: string): void
  /** The client's DEALLOCATE ALL or DISCARD ALL has completed. */
  deallocated(): void
  /** The client's DISCARD ALL has completed. */
  discarded(): void
  /** The reset ahead of the client's first bytes has succeeded: more bytes may be sent. */
  onReset(): void
}

/** How a server connection ended. */
export interface Loss {
  /** The last FATAL or PANIC error of the server, if it sent one. */
  readonly fatal: Refused | undefined
  readonly computeId: string | undefined
  /** Whether the borrower received any bytes. */
  readonly answered: boolean
  /**
   * Whether the reset failed, or the server announced its shutdown before the reset was done: then no message of the
   * borrower has run. A connection that breaks without such an error does not count, since Postgres may have run a
   * query without sending the responses to it and to the reset.
   */
  readonly neverRan: boolean
  /** Whether the borrower received only the beginning of a message. */
  readonly midMessage: boolean
  /** Whether the server received a part of a batch without its Sync. */
  readonly inBatch: boolean
  /** The transaction status of the last ReadyForQuery. */
  readonly status: number
  readonly unanswered: readonly Expected[]
}
