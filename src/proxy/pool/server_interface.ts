import type { Socket } from 'node:net'
import type { Borrower, Unnamed } from './borrower.ts'
import type { Expected, Refused } from './expected.ts'
import type { Parameters } from './parameters.ts'
import type { PooledStatement } from './statements.ts'

/** A server connection of a pool. */
export interface PoolServer {
  readonly computePid: number | undefined
  /** The settings that Postgres reports, as they are or will be behind a reset that is under way. */
  parameters(): Parameters
  /** Nothing is left to be answered, outside of a transaction. */
  isSettled(): boolean
  /** It was in a transaction that has failed when it was last ready. */
  hasFailed(): boolean
  /** It was sent a part of a batch, and no Sync behind it. */
  isInBatch(): boolean
  /** Bytes are on their way to it that it has not taken. */
  isSending(): boolean
  needsDrain(): boolean
  /** What those come to that follow a client, to be compared. */
  settings(): string
  /** When it came to rest, on the clock of `performance.now()`. */
  restedAt: number
  /** Which unnamed statement it has, if that is known. */
  unnamed: Unnamed | undefined
  /** Whether no client has used it since it was opened or reset. */
  isClean(): boolean
  /** Whether a client may go on in it as it is: it is clean, or this client alone has used it since. */
  isFor(borrower: Borrower): boolean
  /**
   * Lends it. One that is not for this client is reset first, in the same write as the bytes that `send` is given next: these have to be one
   * request (`isOneRequest`), and no more may be sent until `isResetting` is false, of which `onReset` of the borrower tells.
   */
  lend(borrower: Borrower): void
  /** A reset changes settings that Postgres reports: it does with its next ReadyForQuery, which should not be that of the client's query. */
  mustReport(): boolean
  /** A reset is under way, which may still fail: then the session closes, and what was sent behind it is not run. */
  isResetting(): boolean
  /** Resets it while it is lent to no client; `onRest` is told when it is clean, `onClosed` when that failed. */
  reset(): void
  /** Takes it back; `onRest` is told when it may be lent again, which it is not if what is still under way leaves a transaction open. */
  takeBack(): void
  /** Everything is answered, be it within a transaction. */
  isAnswered(): boolean
  /** Notes a question that is about to be written, in the order of writing. */
  expect(entry: Expected): void
  /** Bytes that make it have a statement; none if it has. @param name what the client calls it, if it has asked for it just now */
  prepare(statement: PooledStatement, name?: string): Buffer[]
  /** Whether a Parse is under way by which the client gives that name: nobody knows yet whether it will do. */
  isNaming(name: string): boolean
  has(statement: PooledStatement): boolean
  /** @param bytes valid only until this returns */
  send(bytes: Buffer): void
  /** Runs a statement whose answer nobody sees. */
  run(statement: string, onAnswer?: (refused: Refused | undefined) => void): void
  /** Cancels what it does. It is not lent again before that has come and gone. */
  cancel(): Promise<void>
  pause(): void
  resume(): void
  close(): void
}

export interface PoolServerOptions {
  readonly socket: Socket
  readonly computePid: number | undefined
  readonly parameters: Parameters
  /** Asks the compute to cancel what this server does; resolves when that can do no more harm, and never rejects. */
  readonly cancel: () => Promise<void>
  readonly onBytes: () => void
  readonly onRest: (server: PoolServer) => void
  readonly onClosed: (server: PoolServer) => void
}
