import type { Socket } from 'node:net'
import type { Endpoint } from '../../catalog/endpoint.ts'
import type { Borrower } from './borrower.ts'
import type { Expected, Refused } from './expected.ts'
import type { Parameters } from './parameters.ts'
import type { PooledStatement } from './statements.ts'
import type { UnnamedVersion } from './unnamed_statement.ts'

/** A server connection of a pool. */
export interface PoolServer {
  readonly computeId: string | undefined
  /** The settings that Postgres reports: the current ones, or those after a reset that is under way. */
  parameters(): Parameters
  /** No response is pending, and no transaction is open. */
  isSettled(): boolean
  /** The last ReadyForQuery reported a failed transaction. */
  hasFailed(): boolean
  /** The server received a part of a batch without its Sync. */
  isInBatch(): boolean
  /** Written bytes are still buffered in this process. */
  isSending(): boolean
  needsDrain(): boolean
  /** Comparison key of the settings that follow a client. */
  settings(): string
  /** When it became idle, on the clock of `performance.now()`. */
  idleSince: number
  /** The unnamed statement at the server. Undefined when it is unknown. */
  unnamed: UnnamedVersion | undefined
  /** Whether no client has used it since it was opened or reset. */
  isClean(): boolean
  /**
   * Whether a client may use it without a reset: it is clean, or only this client has used it since and no prepared
   * statement is stale.
   */
  isFor(borrower: Borrower): boolean
  /**
   * Lends it to a client. If it needs a reset for this client, the reset is written together with the bytes of the next
   * `send`. These must be one request (`isOneRequest`), and no more may be sent until the borrower's `onReset`, when
   * `isResetting` becomes false.
   */
  lend(borrower: Borrower): void
  /**
   * A reset changes settings that Postgres reports with its next ReadyForQuery, which should not be that of the
   * client's query.
   */
  mustReport(): boolean
  /** A reset is under way. If it fails, the session closes, and the messages behind it do not run. */
  isResetting(): boolean
  /** Resets it while it is lent to no client. `onIdle` is called when it is clean, `onClosed` when the reset failed. */
  reset(): void
  /**
   * Ends the loan. `onIdle` is called when it may be lent again. It closes instead if pending messages leave a
   * transaction open.
   */
  takeBack(): void
  /** All messages are answered; a transaction may be open. */
  isAnswered(): boolean
  /** Records a message that is about to be written, in the order of writing. */
  expect(entry: Expected): void
  /**
   * The bytes that prepare a statement; empty if it is prepared.
   * @param name the client's name for it, if the client has just sent its Parse
   */
  prepare(statement: PooledStatement, name?: string): Buffer[]
  /** Whether a Parse by which the client gives that name is pending, so that its success is unknown. */
  isNaming(name: string): boolean
  has(statement: PooledStatement): boolean
  /** @param bytes valid only until this returns */
  send(bytes: Buffer): void
  /** Runs a statement whose response no client gets. */
  run(statement: string, onAnswer?: (refused: Refused | undefined) => void): void
  /** Cancels the running query. The connection is not lent again before the cancel request has ended. */
  cancel(): Promise<void>
  pause(): void
  resume(): void
  close(): void
}

export interface PoolServerOptions {
  readonly socket: Socket
  readonly computeId: string | undefined
  readonly parameters: Parameters
  /**
   * Asks the compute to cancel the query of this connection. Resolves when the request can take no more effect; never
   * rejects.
   */
  readonly cancel: () => Promise<void>
  /** Why the compute refuses writes; null while it accepts them. */
  readonly writesRefused: () => Endpoint['writes_refused'] | undefined
  readonly onBytes: () => void
  readonly onIdle: (server: PoolServer) => void
  readonly onClosed: (server: PoolServer) => void
}
