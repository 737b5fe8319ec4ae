import { createHash } from 'node:crypto'
import type { ConnectionContext } from '../context.ts'
import { ClientGone } from '../errors.ts'
import { PostgresError } from './refusal.ts'
import type { SqlSession } from './conversation.ts'
import { openSession, type Who } from './session.ts'
import type { HttpStatement } from './statement.ts'

/** A password that was changed, or an address that was shut out, is noticed when the next session logs in. */
const LIFE_MS = 60_000
/** More at once would keep each other from being there. */
const MAX_OPENING = 8
const MAX_IDLE_EACH = 20
const MAX_IDLE = 200

/** The compute was suspended, restarted or crashed meanwhile (57P01 to 57P03). */
const IS_GONE = /^57P0[123]$/

const plain = (text: string): HttpStatement => ({ text, parameters: [], arrayMode: true, rawText: true })
const ROLLBACK = plain('rollback')
const DISCARD_ALL = plain('discard all')

/** What a request does in its session. It is given another one, and begins again, if the session turns out to be gone. */
export type Work<T> = (session: SqlSession, endpointId: string) => Promise<T>

/** Sessions that requests leave for those that follow them: from the same address with the same connection string. */
export interface Sessions {
  /** Errors: as `openSession` and `run` have them. */
  use<T>(who: Who, signal: AbortSignal, work: Work<T>): Promise<T>
  /** Ends those that nobody uses, and keeps none from now on. */
  stop(): void
}

interface Opened {
  readonly session: SqlSession
  readonly endpointId: string
  readonly until: number
}

/** What one connection string from one address has. */
interface Lane {
  readonly name: string
  readonly idle: Opened[]
  /** Requests and open sessions: without any it is forgotten. */
  users: number
  opening: number
  /** Sessions that are being reset after a request. */
  resetting: number
  /** Requests that wait for a session that is left, or for their turn to open one. */
  readonly waiting: Set<(given: Opened | undefined) => void>
}

export function createSessions(context: ConnectionContext): Sessions {
  const lanes = new Map<string, Lane>()
  let idleCount = 0
  let stopped = false

  /** The answer is to be called when the lane is no more used. */
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
      const { session, endpointId } = await openSession(context, who, signal)
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

  /** A session that was left, or a new one: whichever is there first, but only so many are opened at once. */
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

  /** Leaves a session to the next request, with nothing in it of the last: the two may be for different users of an application. */
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

/** Whether all that was left in the session is gone. */
async function reset(session: SqlSession): Promise<boolean> {
  if (session.state() === 'in_transaction') await session.run([ROLLBACK]).catch(() => {})
  if (session.state() !== 'ready') return false
  return session.run([DISCARD_ALL]).then(
    () => true,
    () => false,
  )
}

/** Resolves at the next turn, with a session if one was left, or when the signal is aborted. */
async function turn({ waiting }: Lane, signal: AbortSignal): Promise<Opened | undefined> {
  const { promise, resolve } = Promise.withResolvers<Opened | undefined>()
  // Out of the queue at once: what is given is given to one who takes it.
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

/** Gives who waits longest its turn. Answers whether anybody waits. */
function give({ waiting }: Lane, opened: Opened | undefined): boolean {
  const [first] = waiting
  if (!first) return false
  waiting.delete(first)
  first(opened)
  return true
}

/** A hash, so that no password is kept. */
const nameOf = ({ address, serverName, password, parameters }: Who): string =>
  createHash('sha256')
    .update(JSON.stringify([address, serverName, password, ...parameters]))
    .digest('base64')
