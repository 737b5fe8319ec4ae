/*
 * The states of a pooled client. It has a server connection from its first message until all is answered outside of a
 * transaction:
 *
 *   idle ──a message──▶ waiting ──a server connection──▶ lent ──all answered, no transaction──▶ idle
 *
 * `waiting` is left out where the pool has an idle connection. While the client is idle, a stop of the compute does not
 * affect it. The loss of its connection does:
 *
 *   lent ──no message has run, or all may run again──▶ waiting
 *   lent ──a transaction was open──▶ aborted ──ROLLBACK or COMMIT──▶ idle
 *   lent ──a batch was open──▶ skipping ──its Sync──▶ idle
 *   lent ──else each message gets an error──▶ idle
 *
 * Statements for which no connection is available, or that are cancelled, fail:
 *
 *   waiting ──an error──▶ idle, or skipping if a batch was open
 *
 * From each state it is `closed` once its stream is, or as soon as a message is malformed.
 */
import type { Duplex } from 'node:stream'
import type { ProxyError } from '../wire/errors.ts'
import type { Aborted, PreparedNames, StatementFailure } from './aborted.ts'
import type { ClientSettings } from './client_settings.ts'
import type { PreparedTexts } from './outcome.ts'
import type { Pool } from './pool.ts'
import type { Requests } from './requests.ts'
import type { Sent } from './sent.ts'
import type { PoolServer } from './server_interface.ts'
import type { Translator } from './translate.ts'
import type { Waiter } from './wait_queue.ts'

export interface PooledClient {
  readonly stream: Duplex
  readonly pool: Pool
  readonly sent: Sent
  readonly settings: ClientSettings
  readonly translator: Translator
  readonly requests: Requests
  readonly texts: PreparedNames & PreparedTexts
  /** Makes the client's error of any error, and counts and logs it. */
  readonly asError: (error: unknown) => ProxyError
  /** The client as the pool and its server connections know it. */
  readonly waiter: Waiter

  /** Only the functions of this module change the state and the four fields after it, each of one state. */
  state: 'idle' | 'waiting' | 'lent' | 'aborted' | 'skipping' | 'closed'
  giveUp: (() => void) | undefined
  server: PoolServer | undefined
  aborted: Aborted | undefined
  /** In `skipping`: the error that answers the client's next message, if the client has not got it. */
  failure: StatementFailure | undefined

  /** Bytes received while no server connection could take them. */
  pending: Buffer[]
  /** Bytes received since the client began to wait for a server connection. */
  waitingLength: number
  /** The client has cancelled the messages sent behind a reset that is under way. */
  isCancelled: boolean
  /** The client has sent Terminate, possibly behind statements that are not yet answered. */
  isTerminated: boolean
}

function enter(client: PooledClient, state: PooledClient['state']): void {
  client.state = state
  client.giveUp = undefined
  client.server = undefined
  client.aborted = undefined
  client.failure = undefined
}

export const toIdle = (client: PooledClient): void => enter(client, 'idle')

/** @param giveUp ends the wait */
export function toWaiting(client: PooledClient, giveUp: () => void): void {
  enter(client, 'waiting')
  client.giveUp = giveUp
}

export function toLent(client: PooledClient, server: PoolServer): void {
  enter(client, 'lent')
  client.server = server
}

export function toAborted(client: PooledClient, aborted: Aborted): void {
  enter(client, 'aborted')
  client.aborted = aborted
}

export function toSkipping(client: PooledClient, failure: StatementFailure | undefined): void {
  enter(client, 'skipping')
  client.failure = failure
}

export const toClosed = (client: PooledClient): void => enter(client, 'closed')
