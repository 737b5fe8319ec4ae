import { ProxyError } from '../errors.ts'
import type { Traffic } from '../traffic.ts'
import type { Borrower } from './borrower.ts'
import type { Parameters } from './parameters.ts'
import type { PoolServer } from './server_interface.ts'
import { createStatements, type Statements } from './statements.ts'

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
  given(server: PoolServer): void
  /** No server connection is available. */
  failed(error: Error): void
}

/** The server connections that the clients of one user and database of an endpoint share. */
export interface Pool {
  readonly traffic: Traffic
  readonly statements: Statements
  /** The settings of a server connection opened without an application_name. Returns undefined before the first one. */
  reported(): Parameters | undefined
  /**
   * Takes an idle server connection that the client can use without a reset. Returns undefined when there is no such
   * connection, other clients wait or the endpoint is paused.
   */
  takeFor(borrower: Borrower): PoolServer | undefined
  /**
   * Takes an idle server connection that another client has used, for a client that sends one request
   * (`PoolServer.lend`). Returns undefined as `takeFor` does.
   */
  takeUsed(): PoolServer | undefined
  /**
   * Waits for a server connection: one that becomes idle, or a new one. Returns a function that gives up; the waiter is
   * called only after the caller has it.
   */
  wait(waiter: Waiter): () => void
  /** Waits for a new server connection, opened for this waiter. Returns a function that gives up. */
  waitForNew(waiter: Omit<Waiter, 'borrower' | 'sendsOneRequest'>): () => void
  /** Adds a client to the pool. Returns a function that removes it. */
  join(): () => void
  /** Closes idle server connections now, and for `CLOSE_IDLE_MS` each one that becomes idle. */
  closeIdle(): void
  /** Closes all server connections. */
  close(): void
}

export interface PoolOptions {
  readonly traffic: Traffic
  readonly most: number
  /**
   * Opens a server connection, and wakes the compute if needed. `onRest` is called when the connection may be lent
   * again.
   */
  readonly open: (hooks: ServerHooks, applicationName: string) => Promise<PoolServer>
  /** No client and no server connection is left. */
  readonly onEmpty: () => void
}

export interface ServerHooks {
  readonly onRest: (server: PoolServer) => void
  readonly onClosed: (server: PoolServer) => void
}

/** Limit of concurrent opens: meanwhile other server connections may become idle. */
const MAX_OPENING = 4
/** A server connection that is idle for this long is closed. */
const IDLE_MS = 60_000
/** Checks for idle server connections per `IDLE_MS`. */
const SWEEPS = 4
/**
 * How long an idle server connection keeps the session state of its last client, so that a client that continues at
 * once finds its prepared statements and plans. Then it is reset, which releases session locks that were left behind.
 */
const LINGER_MS = 500
/** How long a client waits for a server connection while all are in use, as in PgBouncer. */
const WAIT_MS = 120_000
/** Longer than a command that needs a database to itself waits for other sessions to end. */
const CLOSE_IDLE_MS = 6_000

export function createPool(options: PoolOptions): Pool {
  const { traffic, most, open, onEmpty } = options
  const servers = new Set<PoolServer>()
  /** The one used last is taken first, so that surplus connections reach `IDLE_MS`. */
  const resting: PoolServer[] = []
  const waiters = new Set<Waiter>()
  let opening = 0
  let clients = 0
  let reported: Parameters | undefined
  let sweep: NodeJS.Timeout | undefined
  let linger: NodeJS.Timeout | undefined
  let held = false
  /** Until this time, server connections that become idle are closed. */
  let closingUntil = -Infinity
  const resetting = new Set<PoolServer>()

  const hooks: ServerHooks = {
    onRest(server) {
      if (!servers.has(server)) return
      resetting.delete(server)
      if (waiters.size > 0 && !traffic.hold) {
        const [first] = waiters
        if (first) return offer(server, first)
      }
      if (performance.now() < closingUntil) return server.close()
      server.restedAt = performance.now()
      resting.push(server)
      sweep ??= setInterval(closeOld, IDLE_MS / SWEEPS).unref()
      if (!server.isClean()) linger ??= setTimeout(resetLingering, LINGER_MS).unref()
      serve()
    },
    onClosed(server) {
      servers.delete(server)
      resetting.delete(server)
      const at = resting.indexOf(server)
      if (at >= 0) resting.splice(at, 1)
      serve()
      leaveIfEmpty()
    },
  }

  /**
   * Lends a server connection to a waiting client. If the client has more to send than may follow a reset, resets the
   * connection first.
   */
  function offer(server: PoolServer, waiter: Waiter): void {
    if (isFit(server, waiter)) {
      waiters.delete(waiter)
      waiter.given(server)
    } else reset(server)
  }

  function reset(server: PoolServer): void {
    resetting.add(server)
    server.reset()
  }

  function resetLingering(): void {
    linger = undefined
    const since = performance.now() - LINGER_MS
    const used = resting.filter((server) => !server.isClean())
    for (const server of used) {
      if (traffic.hold || server.restedAt > since) continue
      resting.splice(resting.indexOf(server), 1)
      reset(server)
    }
    if (used.some((server) => !resetting.has(server))) linger = setTimeout(resetLingering, LINGER_MS).unref()
  }

  /** Lends idle server connections to waiting clients, and opens new ones up to the limits. */
  function serve(): void {
    if (waiters.size === 0) return
    if (traffic.hold) {
      if (held) return
      held = true
      traffic.hold.wake()
      void traffic.hold.over.then(() => {
        held = false
        serve()
      })
      return
    }
    // The first waiters get the server connections that are being reset.
    let passed = resetting.size
    for (const waiter of waiters) {
      const rested = passed-- > 0 ? undefined : resting.pop()
      if (rested) offer(rested, waiter)
      else if (resting.length === 0) break
    }
    while (opening < Math.min(waiters.size - resetting.size, MAX_OPENING) && servers.size + opening < most) {
      opening++
      void openOne()
    }
  }

  async function openOne(): Promise<void> {
    try {
      const [first] = waiters
      const name = first?.applicationName() ?? ''
      const server = await open(hooks, name)
      if (name === '') reported ??= new Map(server.parameters())
      servers.add(server)
      opening--
      hooks.onRest(server)
      serve()
    } catch (thrown) {
      opening--
      const error = asError(thrown)
      // A server connection that is in use will become idle for the waiters.
      if (servers.size > resting.length) return
      const failed = [...waiters]
      waiters.clear()
      for (const waiter of failed) waiter.failed(error)
    }
    leaveIfEmpty()
  }

  function closeOld(): void {
    const since = performance.now() - IDLE_MS
    for (const server of resting.filter(({ restedAt }) => restedAt < since)) server.close()
    if (resting.length > 0) return
    clearInterval(sweep)
    sweep = undefined
  }

  function leaveIfEmpty(): void {
    if (clients > 0 || servers.size > 0 || opening > 0) return
    clearInterval(sweep)
    clearTimeout(linger)
    sweep = linger = undefined
    onEmpty()
  }

  return {
    traffic,
    statements: createStatements(),
    reported: () => reported,
    takeFor(borrower) {
      if (traffic.hold || waiters.size > 0) return undefined
      let at = resting.length - 1
      while (at >= 0 && !resting[at]?.isFor(borrower)) at--
      if (at < 0) return undefined
      return at === resting.length - 1 ? resting.pop() : resting.splice(at, 1)[0]
    },
    takeUsed: () => (traffic.hold || waiters.size > 0 ? undefined : resting.pop()),
    wait(waiter) {
      const timer = setTimeout(() => {
        if (waiters.delete(timed)) waiter.failed(new ProxyError('pool_crowded'))
      }, WAIT_MS)
      const timed: Waiter = {
        ...waiter,
        given(server) {
          clearTimeout(timer)
          waiter.given(server)
        },
        failed(error) {
          clearTimeout(timer)
          waiter.failed(error)
        },
      }
      waiters.add(timed)
      // The caller must have the function that gives up before it gets a server connection.
      queueMicrotask(serve)
      return () => {
        clearTimeout(timer)
        waiters.delete(timed)
      }
    },
    closeIdle() {
      closingUntil = performance.now() + CLOSE_IDLE_MS
      for (const server of servers) if (resting.includes(server)) server.close()
    },
    close() {
      for (const server of servers) server.close()
    },
    waitForNew(waiter) {
      let gaveUp = false
      opening++
      open(hooks, waiter.applicationName()).then(
        (server) => {
          opening--
          servers.add(server)
          if (gaveUp) hooks.onRest(server)
          else waiter.given(server)
        },
        (error: unknown) => {
          opening--
          if (!gaveUp) waiter.failed(asError(error))
          leaveIfEmpty()
        },
      )
      return () => {
        gaveUp = true
      }
    },
    join() {
      clients++
      return () => {
        clients--
        leaveIfEmpty()
      }
    },
  }
}

const isFit = (server: PoolServer, asker: Asker): boolean => server.isFor(asker.borrower) || asker.sendsOneRequest()

const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)))
