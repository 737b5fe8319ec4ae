import { ProxyError } from '../wire/errors.ts'
import type { Borrower } from './borrower.ts'
import type { PoolServer } from './server_interface.ts'

/** A client that asks for a server connection. */
export interface Asker {
  readonly borrower: Borrower
  /**
   * Whether the client's next bytes are one request, which may follow the reset of a server connection that another
   * client has used (`PoolServer.lend`).
   */
  sendsOneRequest(): boolean
  /**
   * The client's application_name. A server connection opened for it has that name after each reset, which saves a SET.
   */
  applicationName(): string
}

/** A client that waits for a server connection. */
export interface Waiter extends Asker {
  onServer(server: PoolServer): void
  /** No server connection is available. */
  onError(error: Error): void
}

/** The clients that wait for a server connection, in the order in which they came, each up to `WAIT_MS`. */
export interface WaitQueue extends Iterable<Waiter> {
  readonly size: number
  first(): Waiter | undefined
  /** Returns a function that gives up. */
  add(waiter: Waiter): () => void
  give(waiter: Waiter, server: PoolServer): void
  failAll(error: Error): void
}

/** How long a client waits for a server connection while all are in use, as in PgBouncer. */
const WAIT_MS = 120_000

export function createWaitQueue(): WaitQueue {
  const timers = new Map<Waiter, NodeJS.Timeout>()

  function remove(waiter: Waiter): void {
    clearTimeout(timers.get(waiter))
    timers.delete(waiter)
  }

  function expire(waiter: Waiter): void {
    remove(waiter)
    waiter.onError(new ProxyError('pool_timeout'))
  }

  return {
    get size() {
      return timers.size
    },
    [Symbol.iterator]: () => timers.keys(),
    first: () => timers.keys().next().value,
    add(waiter) {
      timers.set(waiter, setTimeout(expire, WAIT_MS, waiter))
      return () => remove(waiter)
    },
    give(waiter, server) {
      remove(waiter)
      waiter.onServer(server)
    },
    failAll(error) {
      const failed = [...timers.keys()]
      for (const waiter of failed) remove(waiter)
      for (const waiter of failed) waiter.onError(error)
    },
  }
}
