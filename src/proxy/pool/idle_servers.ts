import type { Borrower } from './borrower.ts'
import type { PoolServer } from './server_interface.ts'

/** The idle server connections of a pool. Used ones are reset and all are closed when they stay idle. */
export interface IdleServers {
  readonly length: number
  add(server: PoolServer): void
  /** Takes the one that was used last, so that surplus connections reach `IDLE_MS`. */
  take(): PoolServer | undefined
  /** Takes the one that a client can use without a reset and that was used last. */
  takeFor(borrower: Borrower): PoolServer | undefined
  remove(server: PoolServer): void
  has(server: PoolServer): boolean
  /** Stops the timers, which run while there are idle connections. */
  stop(): void
}

/** A server connection that is idle for this long is closed. */
const IDLE_MS = 60_000
/** Checks for idle server connections per `IDLE_MS`. */
const SWEEPS = 4
/**
 * How long an idle server connection keeps the session state of its last client, so that a client that continues at
 * once finds its prepared statements and plans. Then it is reset, which releases session locks that were left behind.
 */
const LINGER_MS = 500

/**
 * @param isPaused whether the endpoint is paused: a reset would be activity of its compute
 * @param reset called with a connection that is no longer idle
 */
export function createIdleServers(isPaused: () => boolean, reset: (server: PoolServer) => void): IdleServers {
  const servers: PoolServer[] = []
  let sweep: NodeJS.Timeout | undefined
  let linger: NodeJS.Timeout | undefined

  function closeOld(): void {
    const since = performance.now() - IDLE_MS
    for (const server of servers.filter(({ idleSince }) => idleSince < since)) server.close()
    if (servers.length > 0) return
    clearInterval(sweep)
    sweep = undefined
  }

  function resetLingering(): void {
    linger = undefined
    const since = performance.now() - LINGER_MS
    let mustWait = false
    for (const server of servers.filter((one) => !one.isClean())) {
      if (isPaused() || server.idleSince > since) mustWait = true
      else {
        remove(server)
        reset(server)
      }
    }
    if (mustWait) linger = setTimeout(resetLingering, LINGER_MS).unref()
  }

  function remove(server: PoolServer): void {
    const at = servers.indexOf(server)
    if (at >= 0) servers.splice(at, 1)
  }

  return {
    get length() {
      return servers.length
    },
    add(server) {
      servers.push(server)
      sweep ??= setInterval(closeOld, IDLE_MS / SWEEPS).unref()
      if (!server.isClean()) linger ??= setTimeout(resetLingering, LINGER_MS).unref()
    },
    take: () => servers.pop(),
    takeFor(borrower) {
      let at = servers.length - 1
      while (at >= 0 && !servers[at]?.isFor(borrower)) at--
      if (at < 0) return undefined
      return at === servers.length - 1 ? servers.pop() : servers.splice(at, 1)[0]
    },
    remove,
    has: (server) => servers.includes(server),
    stop() {
      clearInterval(sweep)
      clearTimeout(linger)
      sweep = linger = undefined
    },
  }
}
