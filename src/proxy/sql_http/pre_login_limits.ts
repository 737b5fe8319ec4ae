import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/** A connection without a login after this time, and without a request under way, is closed. */
const LOGIN_MS = 15_000
/** Limit of requests under way per connection. Clients that wait for each response have one. */
const MAX_UNANSWERED = 16

/** Limits of HTTP connections before a login: time, and requests under way. */
export interface PreLoginLimits {
  add(connection: Duplex): void
  /**
   * A request has come, and is under way until its response is closed. Returns false over the limit: the connection is
   * closed, and the request must not be handled.
   */
  began(connection: Duplex, response: ServerResponse): boolean
  /** A login on the connection has succeeded, or it became a WebSocket, which has its own time limit. */
  loggedIn(connection: Duplex): void
}

export function createPreLoginLimits(): PreLoginLimits {
  const timers = new WeakMap<Duplex, NodeJS.Timeout>()
  const unanswered = new WeakMap<Duplex, number>()

  function change(connection: Duplex, by: 1 | -1): number {
    const count = (unanswered.get(connection) ?? 0) + by
    unanswered.set(connection, count)
    return count
  }

  return {
    add(connection) {
      const timer = setInterval(() => {
        if (!unanswered.get(connection)) connection.destroy()
      }, LOGIN_MS)
      timers.set(connection, timer)
      connection.once('close', () => clearInterval(timer))
    },
    began(connection, response) {
      if (change(connection, 1) > MAX_UNANSWERED) connection.destroy()
      response.once('close', () => change(connection, -1))
      return !connection.destroyed
    },
    loggedIn: (connection) => clearInterval(timers.get(connection)),
  }
}
