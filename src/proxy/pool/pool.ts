import { ProxyError } from '../errors.ts'
import type { Traffic } from '../traffic.ts'
import type { Borrower } from './borrower.ts'
import type { Parameters } from './parameters.ts'
import type { PoolServer } from './server_interface.ts'
import { createStatements, type Statements } from './statements.ts'

/** A client that asks for a server. */
export interface Asker {
  readonly borrower: Borrower
  /** Whether what it is about to send may go out behind the reset of a server that another client has used (`PoolServer.lend`). */
  sendsOneRequest(): boolean
  /** The application_name that it goes by: a server that is opened for it has that after each reset, which saves setting it. */
  applicationName(): string
}

/** Who waits for a server. */
export interface Waiter extends Asker {
  given(server: PoolServer): void
  /** None is to be had. */
  failed(error: Error): void
}

/** The servers that the clients of one user and database of an endpoint share. */
export interface Pool {
  readonly traffic: Traffic
  readonly statements: Statements
  /** What a fresh server reports, once one was there. */
  reported(): Parameters | undefined
  /** A server at rest in which the client may go on without a reset; none while others wait or the endpoint is held. */
  takeFor(borrower: Borrower): PoolServer | undefined
  /** A server at rest that another client has used, for a client that sends one request (`PoolServer.lend`). None as above. */
  takeUsed(): PoolServer | undefined
  /** Waits for a server: one that comes to rest, or a new one. The answer gives up; the waiter is told of a server or an error only after it has that. */
  wait(waiter: Waiter): () => void
  /** Waits for a new server, none of those that are there. The answer gives up. */
  waitForNew(waiter: Omit<Waiter, 'borrower' | 'sendsOneRequest'>): () => void
  /** Makes one more client of this pool; the answer makes it one less. */
  join(): () => void
  /** Closes the servers at rest, and for a while those that come to rest. */
  closeIdle(): void
  /** Closes its servers. */
  close(): void
}

export interface PoolOptions {
  readonly traffic: Traffic
  readonly most: number
  /** Opens a session at the compute, waking it if need be; `onRest` is told whenever it may be lent. */
  readonly open: (hooks: ServerHooks, applicationName: string) => Promise<PoolServer>
  /** Nobody is left, neither client nor server. */
  readonly onEmpty: () => void
}

export interface ServerHooks {
  readonly onRest: (server: PoolServer) => void
  readonly onClosed: (server: PoolServer) => void
}

/** So many sessions are opened at once: while they are, others may come to rest. */
const MAX_OPENING = 4
/** A server that nobody has wanted for so long is closed. */
const IDLE_MS = 60_000
/** So many times within that it is looked for such. */
const SWEEPS = 4
/**
 * For so long a server at rest is left as its last client has left it: one that goes on at once finds its prepared statements and plans. Then
 * it is reset, so that locks of a session that are left behind are released.
 */
const LINGER_MS = 500
/** How long a client waits for a server while others have all there may be, as in PgBouncer. */
const WAIT_MS = 120_000
/** For so long a command that needs a database to itself waits for the sessions there to go, and some. */
const CLOSE_IDLE_MS = 6_000

export function createPool(options: PoolOptions): Pool {
  const { traffic, most, open, onEmpty } = options
  const servers = new Set<PoolServer>()
  /** The one used last is taken first, so that what is not needed grows old. */
  const resting: PoolServer[] = []
  const waiters = new Set<Waiter>()
  let opening = 0
  let clients = 0
  let reported: Parameters | undefined
  let sweep: NodeJS.Timeout | undefined
  let linger: NodeJS.Timeout | undefined
  let held = false
  /** Until then no server is kept at rest. */
  let closingUntil = -Infinity
  /** Servers that are being reset. */
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

  /** Lends a server to a client that waits, or resets it for one that has more to send than may go out behind a reset. */
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

  /** Gives those that wait what there is, and opens what there may be. */
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
    // The first in line get the servers that are being reset.
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
      // Where others are at work, one of them will come to rest.
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
      // The asker must have what gives up before it is given a server.
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
