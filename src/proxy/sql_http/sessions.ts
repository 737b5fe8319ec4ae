import { createHash } from 'node:crypto'
import { ClientGone } from '../wire/errors.ts'
import { PostgresError } from './refusal.ts'
import type { SqlSession } from './conversation.ts'
import { openSession, type Serve, type Who } from './session.ts'
import type { HttpStatement } from './statement.ts'

/** Limit of a session's age: a changed password or address list takes effect at the next login. */
const LIFE_MS = 60_000
/** More concurrent logins would slow each other down. */
const MAX_OPENING = 8
const MAX_IDLE_EACH = 20
const MAX_IDLE = 200

/** SQLSTATEs of a compute that was suspended, restarted or crashed (57P01 to 57P03). */
const IS_GONE = /^57P0[123]$/

const plain = (text: string): HttpStatement => ({ text, parameters: [], arrayMode: true, rawText: true })
const ROLLBACK = plain('rollback')
const DISCARD_ALL = plain('discard all')

/** The work of a request in its session. It starts again in another session if the first one turns out to be gone. */
export type Work<T> = (session: SqlSession, endpointId: string) => Promise<T>

/** Sessions that requests share in turn: those from the same address with the same connection string. */
export interface Sessions {
  /** Errors: those of `openSession` and `run`. */
  use<T>(who: Who, signal: AbortSignal, work: Work<T>): Promise<T>
  /** Ends idle sessions, and keeps no sessions from now on. */
  stop(): void
}

interface Opened {
  readonly session: SqlSession
  readonly endpointId: string
  readonly until: number
}

/** The sessions and requests of one connection string from one address. */
interface Lane {
  readonly name: string
  readonly idle: Opened[]
  /** The number of requests and open sessions; at zero the lane is removed. */
  users: number
  opening: number
  /** Sessions that are being reset after a request. */
  resetting: number
  /** Requests that wait for a returned session, or for their turn to open one. */
  readonly waiting: Set<(given: Opened | undefined) => void>
}

export function createSessions(serve: Serve): Sessions {
  const lanes = new Map<string, Lane>()
  let idleCount = 0
  let stopped = false

  /** Returns a function to call when the lane is no longer used. */
  function enter(lane: Lane): () => void {
    lane.users += 1
    lanes.set(lane.name, lane)
    return () => {
      lane.users -= 1
      if (lane.users === 0) lanes.delete(lane.name)
    }
  }

  async function open(lane: Lane, who: Who, signal: AbortSignal): Promise<Opened> {
    lane.opening += 1
    try {
      const { session, endpointId } = await openSession(serve, who, signal)
      const exit = enter(lane)
      const opened = { session, endpointId, until: performance.now() + LIFE_MS }
      const timer = setTimeout(() => {
        if (lane.idle.includes(opened)) session.abandon()
      }, LIFE_MS)
      session.onGone(() => {
        clearTimeout(timer)
        forget(lane, opened)
        exit()
      })
      return opened
    } finally {
      lane.opening -= 1
      give(lane, undefined)
    }
  }

  function forget({ idle }: Lane, opened: Opened): void {
    const at = idle.indexOf(opened)
    if (at < 0) return
    idle.splice(at, 1)
    idleCount -= 1
  }

  /** Takes an idle or returned session, or opens one, within the limit of concurrent logins. */
  async function take(lane: Lane, who: Who, signal: AbortSignal): Promise<{ opened: Opened; isNew: boolean }> {
    for (;;) {
      const left = lane.idle.at(-1)
      if (left) {
        forget(lane, left)
        return { opened: left, isNew: false }
      }
      const isOneLeft = lane.resetting > lane.waiting.size
      if (lane.opening < MAX_OPENING && !isOneLeft) return { opened: await open(lane, who, signal), isNew: true }
      const given = await turn(lane, signal)
      if (signal.aborted) {
        if (given) void leave(lane, given)
        else give(lane, undefined)
        throw new ClientGone('gone before its turn')
      }
      if (given) return { opened: given, isNew: false }
    }
  }

  /** Resets a session and leaves it to the next request: the two may be for different users of an application. */
  async function leave(lane: Lane, opened: Opened): Promise<void> {
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

  async function use<T>(lane: Lane, who: Who, signal: AbortSignal, work: Work<T>): Promise<T> {
    for (;;) {
      const { opened, isNew } = await take(lane, who, signal)
      const gone = (): void => opened.session.abandon()
      signal.addEventListener('abort', gone)
      if (signal.aborted) gone()
      try {
        return await work(opened.session, opened.endpointId)
      } catch (error) {
        if (isNew || !(error instanceof PostgresError && error.cameFirst && IS_GONE.test(error.code))) throw error
      } finally {
        signal.removeEventListener('abort', gone)
        void leave(lane, opened)
      }
    }
  }

  return {
    async use(who, signal, work) {
      const name = nameOf(who)
      const lane = lanes.get(name) ?? { name, idle: [], users: 0, opening: 0, resetting: 0, waiting: new Set() }
      const exit = enter(lane)
      try {
        return await use(lane, who, signal, work)
      } finally {
        exit()
      }
    },
    stop() {
      stopped = true
      for (const { session } of [...lanes.values()].flatMap(({ idle }) => [...idle])) session.abandon()
    },
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
async function turn({ waiting }: Lane, signal: AbortSignal): Promise<Opened | undefined> {
  const { promise, resolve } = Promise.withResolvers<Opened | undefined>()
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
function give({ waiting }: Lane, opened: Opened | undefined): boolean {
  const [first] = waiting
  if (!first) return false
  waiting.delete(first)
  first(opened)
  return true
}

/** A hash, so that the name holds no password. */
const nameOf = ({ address, serverName, password, parameters }: Who): string =>
  createHash('sha256')
    .update(JSON.stringify([address, serverName, password, ...parameters]))
    .digest('base64')
