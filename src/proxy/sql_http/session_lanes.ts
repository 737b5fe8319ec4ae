/*
 * Sessions that requests share in turn, in lanes: one for each connection string and address.
 *
 *   opening ─▶ in use ─▶ resetting ─▶ in use by the request that waits longest
 *                            └─▶ idle ─▶ in use by the next request
 *   any of them ─too old, not clean after the request, broken, too many idle▶ gone
 */
import { ClientGone } from '../wire/errors.ts'
import { openSession, type Serve, type HttpClient } from './open_session.ts'
import type { SqlSession } from './sql_session.ts'
import type { HttpStatement } from './statement.ts'

/** Limit of a session's age: a changed password or address list takes effect at the next login. */
const LIFE_MS = 60_000
/** More concurrent logins would slow each other down. */
const MAX_OPENING = 8
const MAX_IDLE_EACH = 20
const MAX_IDLE = 200

const plain = (text: string): HttpStatement => ({ text, parameters: [], arrayMode: true, rawText: true })
const ROLLBACK = plain('rollback')
const DISCARD_ALL = plain('discard all')

export interface OpenedSession {
  readonly session: SqlSession
  readonly endpointId: string
  readonly until: number
}

/** The sessions and requests of one connection string from one address. */
export interface Lane {
  readonly name: string
  readonly idle: OpenedSession[]
  /** The number of requests and open sessions; at zero the lane is removed. */
  users: number
  opening: number
  /** Sessions that are being reset after a request. */
  resetting: number
  /** Requests that wait for a returned session, or for their turn to open one. */
  readonly waiting: Set<(given: OpenedSession | undefined) => void>
}

/** The sessions of all lanes: idle, in use, being opened or being reset. */
export interface SessionLanes {
  /** Adds a request to a lane. Returns the lane, and a function to call when the request no longer uses it. */
  enter(name: string): { readonly lane: Lane; readonly exit: () => void }
  /**
   * Takes an idle or returned session, or opens one, within the limit of concurrent logins.
   * Errors: those of `openSession`; ClientGone when the signal is aborted.
   */
  take(
    lane: Lane,
    client: HttpClient,
    signal: AbortSignal,
  ): Promise<{ readonly opened: OpenedSession; readonly isNew: boolean }>
  /** Resets a session and leaves it to the next request: the two may be for different users of an application. */
  release(lane: Lane, opened: OpenedSession): Promise<void>
  /** Ends idle sessions, and keeps no sessions from now on. */
  stop(): void
}

export function createSessionLanes(serve: Serve): SessionLanes {
  const lanes = new Map<string, Lane>()
  let idleCount = 0
  let stopped = false

  async function open(lane: Lane, client: HttpClient, signal: AbortSignal): Promise<OpenedSession> {
    lane.opening += 1
    try {
      const { session, endpointId } = await openSession(serve, client, signal)
      const exit = enter(lanes, lane)
      const opened = { session, endpointId, until: performance.now() + LIFE_MS }
      const timer = setTimeout(() => {
        if (lane.idle.includes(opened)) session.abandon()
      }, LIFE_MS)
      session.onGone(() => {
        clearTimeout(timer)
        removeIdle(lane, opened)
        exit()
      })
      return opened
    } finally {
      lane.opening -= 1
      give(lane, undefined)
    }
  }

  function removeIdle({ idle }: Lane, opened: OpenedSession): void {
    const at = idle.indexOf(opened)
    if (at < 0) return
    idle.splice(at, 1)
    idleCount -= 1
  }

  async function take(
    lane: Lane,
    client: HttpClient,
    signal: AbortSignal,
  ): Promise<{ opened: OpenedSession; isNew: boolean }> {
    for (;;) {
      const left = lane.idle.at(-1)
      if (left) {
        removeIdle(lane, left)
        return { opened: left, isNew: false }
      }
      const isOneLeft = lane.resetting > lane.waiting.size
      if (lane.opening < MAX_OPENING && !isOneLeft) return { opened: await open(lane, client, signal), isNew: true }
      const given = await turn(lane, signal)
      if (signal.aborted) {
        if (given) void release(lane, given)
        else give(lane, undefined)
        throw new ClientGone('gone before its turn')
      }
      if (given) return { opened: given, isNew: false }
    }
  }

  async function release(lane: Lane, opened: OpenedSession): Promise<void> {
    const { session, until } = opened
    lane.resetting += 1
    const isClean = performance.now() < until && (await reset(session))
    lane.resetting -= 1
    if (!isClean || stopped) {
      session.abandon()
      return void give(lane, undefined)
    }
    if (give(lane, opened)) return
    if (lane.idle.length >= MAX_IDLE_EACH || idleCount >= MAX_IDLE) return session.abandon()
    lane.idle.push(opened)
    idleCount += 1
  }

  return {
    enter(name) {
      const lane = lanes.get(name) ?? { name, idle: [], users: 0, opening: 0, resetting: 0, waiting: new Set() }
      return { lane, exit: enter(lanes, lane) }
    },
    take,
    release,
    stop() {
      stopped = true
      for (const { session } of [...lanes.values()].flatMap(({ idle }) => [...idle])) session.abandon()
    },
  }
}

/** Returns a function to call when the lane is no longer used. */
function enter(lanes: Map<string, Lane>, lane: Lane): () => void {
  lane.users += 1
  lanes.set(lane.name, lane)
  return () => {
    lane.users -= 1
    if (lane.users === 0) lanes.delete(lane.name)
  }
}

/** Discards the state of a session. Returns false if the session cannot be used again. */
async function reset(session: SqlSession): Promise<boolean> {
  if (session.state() === 'in_transaction') await session.run([ROLLBACK]).catch(() => {})
  if (session.state() !== 'ready') return false
  return session.run([DISCARD_ALL]).then(
    () => true,
    () => false,
  )
}

/** Resolves at the next turn, with a session if one was returned, or when the signal is aborted. */
async function turn({ waiting }: Lane, signal: AbortSignal): Promise<OpenedSession | undefined> {
  const { promise, resolve } = Promise.withResolvers<OpenedSession | undefined>()
  // Leave the queue at once, so that a session goes to a request that takes it.
  const aborted = (): void => {
    waiting.delete(resolve)
    resolve(undefined)
  }
  waiting.add(resolve)
  signal.addEventListener('abort', aborted)
  try {
    return await promise
  } finally {
    waiting.delete(resolve)
    signal.removeEventListener('abort', aborted)
  }
}

/** Wakes the request that waits longest. Returns whether one waited. */
function give({ waiting }: Lane, opened: OpenedSession | undefined): boolean {
  const [first] = waiting
  if (!first) return false
  waiting.delete(first)
  first(opened)
  return true
}
