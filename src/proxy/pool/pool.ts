/*
 * The server connections that the clients of one user and database of an endpoint share:
 *
 *   opening ──login──▶ idle
 *   idle ──a client takes it, or waits──▶ lent ──all answered, no transaction──▶ idle
 *   idle ──used, and then unused for LINGER_MS──▶ resetting ──clean──▶ idle
 *   idle ──the first waiting client cannot use it as it is──▶ resetting
 *   idle ──unused for IDLE_MS──▶ closed, as each state when the session ends
 *
 * A connection that becomes idle while clients wait is lent at once. None is lent while the endpoint is paused.
 */
import type { Traffic } from '../suspend/traffic.ts'
import type { Borrower } from './borrower.ts'
import { createIdleServers, type IdleServers } from './idle_servers.ts'
import { CONFIGURED, type Parameters } from './parameters.ts'
import type { PoolServer } from './server_interface.ts'
import { createStatements, type Statements } from './statements.ts'
import { createWaitQueue, type Waiter, type WaitQueue } from './wait_queue.ts'

export interface Pool {
  readonly traffic: Traffic
  readonly statements: Statements
  /** The settings of a server connection opened without an application_name. Returns undefined before the first one. */
  reported(): Parameters | undefined
  /** The value of the setting CONFIGURED by the compute's configuration. */
  configured(): string
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
  waitForNew(waiter: NewServerWaiter): () => void
  /** Adds a client to the pool. Returns a function that removes it. */
  join(): () => void
  /** Closes idle server connections now, and for `CLOSE_IDLE_MS` each one that becomes idle. */
  closeIdle(): void
  /** Closes all server connections. */
  close(): void
}

export type NewServerWaiter = Omit<Waiter, 'borrower' | 'sendsOneRequest'>

export interface PoolOptions {
  readonly traffic: Traffic
  /** Limit of server connections. */
  readonly maxServers: number
  /**
   * Opens a server connection, and wakes the compute if needed. `onIdle` is called when the connection may be lent
   * again.
   */
  readonly open: (hooks: ServerHooks, applicationName: string) => Promise<PoolServer>
  /** No client and no server connection is left. */
  readonly onEmpty: () => void
}

export interface ServerHooks {
  readonly onIdle: (server: PoolServer) => void
  readonly onClosed: (server: PoolServer) => void
}

/** Limit of concurrent opens: meanwhile other server connections may become idle. */
const MAX_OPENING = 4
/** Longer than a command that needs a database to itself waits for other sessions to end. */
const CLOSE_IDLE_MS = 6_000

interface State {
  readonly options: PoolOptions
  readonly hooks: ServerHooks
  readonly waiters: WaitQueue
  /** All connections that are open. Those neither idle nor being reset are lent. */
  readonly servers: Set<PoolServer>
  readonly idle: IdleServers
  readonly resetting: Set<PoolServer>
  opening: number
  clients: number
  reported: Parameters | undefined
  /** The value of CONFIGURED that the last server reported while the compute accepted writes. */
  configured: string
  /** The waiting clients are served when the pause ends. */
  servesAfterPause: boolean
  /** Until this time, server connections that become idle are closed. */
  closingUntil: number
}

export function createPool(options: PoolOptions): Pool {
  const { traffic } = options
  const pool: State = {
    options,
    hooks: { onIdle: (server) => addIdle(pool, server), onClosed: (server) => remove(pool, server) },
    waiters: createWaitQueue(),
    servers: new Set(),
    idle: createIdleServers(
      () => traffic.pause !== undefined,
      (server) => reset(pool, server),
    ),
    resetting: new Set(),
    opening: 0,
    clients: 0,
    reported: undefined,
    configured: 'off',
    servesAfterPause: false,
    closingUntil: -Infinity,
  }
  const { idle, servers, waiters } = pool
  const serveNow = (): void => serve(pool)
  const lendsIdle = (): boolean => !traffic.pause && waiters.size === 0

  return {
    traffic,
    statements: createStatements(),
    reported: () => pool.reported,
    configured: () => (traffic.writesRefused ? 'on' : pool.configured),
    takeFor: (borrower) => (lendsIdle() ? idle.takeFor(borrower) : undefined),
    takeUsed: () => (lendsIdle() ? idle.take() : undefined),
    wait(waiter) {
      const giveUp = waiters.add(waiter)
      // The caller must have the function that gives up before it gets a server connection.
      queueMicrotask(serveNow)
      return giveUp
    },
    waitForNew: (waiter) => openFor(pool, waiter),
    join() {
      pool.clients++
      return () => {
        pool.clients--
        leaveIfEmpty(pool)
      }
    },
    closeIdle() {
      pool.closingUntil = performance.now() + CLOSE_IDLE_MS
      for (const server of servers) if (idle.has(server)) server.close()
    },
    close() {
      for (const server of servers) server.close()
    },
  }
}

/** A server connection was opened, was reset, or is no longer lent. */
function addIdle(pool: State, server: PoolServer): void {
  const { options, waiters, servers, idle, resetting } = pool
  if (!servers.has(server)) return
  resetting.delete(server)
  if (waiters.size > 0 && !options.traffic.pause) {
    const first = waiters.first()
    if (first) return offer(pool, server, first)
  }
  if (performance.now() < pool.closingUntil) return server.close()
  server.idleSince = performance.now()
  idle.add(server)
  serve(pool)
}

function remove(pool: State, server: PoolServer): void {
  pool.servers.delete(server)
  pool.resetting.delete(server)
  pool.idle.remove(server)
  serve(pool)
  leaveIfEmpty(pool)
}

/**
 * Lends a server connection to a waiting client. If the client has more to send than may follow a reset, resets the
 * connection first.
 */
function offer(pool: State, server: PoolServer, waiter: Waiter): void {
  if (server.isFor(waiter.borrower) || waiter.sendsOneRequest()) pool.waiters.give(waiter, server)
  else reset(pool, server)
}

function reset(pool: State, server: PoolServer): void {
  pool.resetting.add(server)
  server.reset()
}

/** Lends idle server connections to waiting clients, and opens new ones up to the limits. */
function serve(pool: State): void {
  const { options, waiters, servers, idle, resetting } = pool
  if (waiters.size === 0) return
  if (options.traffic.pause) return serveAfterPause(pool)
  // The first waiters get the server connections that are being reset.
  let passed = resetting.size
  for (const waiter of waiters) {
    const taken = passed-- > 0 ? undefined : idle.take()
    if (taken) offer(pool, taken, waiter)
    else if (idle.length === 0) break
  }
  const missing = missingServers(waiters.size - resetting.size, pool.opening, servers.size, options.maxServers)
  for (let n = 0; n < missing; n++) {
    pool.opening++
    void openOne(pool)
  }
}

/**
 * The number of server connections to open now.
 * @param waiting clients that no connection which is being reset will serve
 * @param opening connections that are being opened
 * @param open connections that are open
 * @param max limit of both together
 */
export const missingServers = (waiting: number, opening: number, open: number, max: number): number =>
  Math.max(0, Math.min(Math.min(waiting, MAX_OPENING) - opening, max - open - opening))

function serveAfterPause(pool: State): void {
  const { pause } = pool.options.traffic
  if (pool.servesAfterPause || !pause) return
  pool.servesAfterPause = true
  pause.wake()
  void pause.over.then(() => {
    pool.servesAfterPause = false
    serve(pool)
  })
}

/** Opens a server connection for the first client that can take it. */
async function openOne(pool: State): Promise<void> {
  const { options, hooks, waiters, servers, idle } = pool
  try {
    const name = waiters.first()?.applicationName() ?? ''
    const server = await options.open(hooks, name)
    if (name === '') pool.reported ??= new Map(server.parameters())
    if (!options.traffic.writesRefused) pool.configured = server.parameters().get(CONFIGURED) ?? 'off'
    servers.add(server)
    pool.opening--
    addIdle(pool, server)
    serve(pool)
  } catch (thrown) {
    pool.opening--
    // A server connection that is in use will become idle for the waiters.
    if (servers.size > idle.length) return
    waiters.failAll(asError(thrown))
  }
  leaveIfEmpty(pool)
}

/** Opens a server connection for this waiter. Returns a function that gives up. */
function openFor(pool: State, waiter: NewServerWaiter): () => void {
  let gaveUp = false
  pool.opening++
  pool.options.open(pool.hooks, waiter.applicationName()).then(
    (server) => {
      pool.opening--
      pool.servers.add(server)
      if (gaveUp) addIdle(pool, server)
      else waiter.onServer(server)
    },
    (error: unknown) => {
      pool.opening--
      if (!gaveUp) waiter.onError(asError(error))
      leaveIfEmpty(pool)
    },
  )
  return () => {
    gaveUp = true
  }
}

function leaveIfEmpty(pool: State): void {
  if (pool.clients > 0 || pool.servers.size > 0 || pool.opening > 0) return
  pool.idle.stop()
  pool.options.onEmpty()
}

const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)))
