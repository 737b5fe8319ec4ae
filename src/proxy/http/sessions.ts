import { createHash } from 'node:crypto'
import type { ConnectionContext } from '../connection.ts'
import type { Login } from './connection_string.ts'
import { PostgresError } from './refusal.ts'
import { openSession, type Result, type SqlSession, type Statement } from './session.ts'

/** A password that was changed, or an address that was shut out, is noticed when the next session logs in. */
const LIFE_MS = 60_000
const MOST_IDLE_EACH = 20
const MOST_IDLE = 500

/** Changes rows, or none: anything else may leave something behind in its session. */
const LEAVES_NOTHING = /^(|SELECT|INSERT|UPDATE|DELETE|MERGE|BEGIN|COMMIT|ROLLBACK)( |$)/
/** The compute was suspended, restarted or crashed meanwhile (57P01 to 57P03). */
const IS_GONE = /^57P0[123]$/

const ROLLBACK: Statement = { text: 'rollback', parameters: [], arrayMode: true, rawText: true }

/** What a request does in its session. It is given another one, and begins again, if the session turns out to be gone. */
export type Work = (session: SqlSession) => Promise<Result[]>

/** Sessions that requests leave for those that follow them: from the same address with the same connection string. */
export interface Sessions {
  /** Errors: as `openSession` and `run` have them. */
  use(login: Login, address: string | undefined, signal: AbortSignal, work: Work): Promise<Result[]>
  /** Ends those that nobody uses, and keeps none from now on. */
  stop(): void
}

interface Idle {
  readonly session: SqlSession
  readonly until: number
}

export function createSessions(context: ConnectionContext): Sessions {
  const idle = new Map<string, Idle[]>()
  let count = 0
  let stopped = false

  function take(name: string): Idle | undefined {
    const last = idle.get(name)?.at(-1)
    if (last) forget(name, last)
    return last
  }

  function forget(name: string, known: Idle): void {
    const all = idle.get(name) ?? []
    const at = all.indexOf(known)
    if (at < 0) return
    all.splice(at, 1)
    count -= 1
    if (all.length === 0) idle.delete(name)
  }

  async function keep(name: string, used: Idle): Promise<void> {
    const { session, until } = used
    if (session.state() === 'in_transaction') await session.run([ROLLBACK]).catch(() => {})
    const all = idle.get(name) ?? []
    const goesOn = !stopped && performance.now() < until && all.length < MOST_IDLE_EACH && count < MOST_IDLE
    if (!goesOn || session.state() !== 'ready') return session.abandon()
    idle.set(name, all)
    all.push(used)
    count += 1
  }

  async function open(name: string, login: Login, address: string | undefined, signal: AbortSignal): Promise<Idle> {
    const session = await openSession(context, login, address, signal)
    const opened = { session, until: performance.now() + LIFE_MS }
    const timer = setTimeout(() => {
      if (idle.get(name)?.includes(opened)) session.abandon()
    }, LIFE_MS)
    session.onGone(() => {
      clearTimeout(timer)
      forget(name, opened)
    })
    return opened
  }

  return {
    async use(login, address, signal, work) {
      const name = nameOf(login, address)
      for (;;) {
        const known = take(name)
        const used = known ?? (await open(name, login, address, signal))
        const gone = (): void => used.session.abandon()
        signal.addEventListener('abort', gone)
        if (signal.aborted) gone()
        let leavesNothing = false
        try {
          const results = await work(used.session)
          leavesNothing = results.every(({ tag }) => LEAVES_NOTHING.test(tag))
          return results
        } catch (error) {
          leavesNothing = error instanceof PostgresError
          const again = known && leavesNothing && isGoneBefore(error as PostgresError)
          if (!again) throw error
        } finally {
          signal.removeEventListener('abort', gone)
          if (leavesNothing) void keep(name, used)
          else used.session.abandon()
        }
      }
    },
    stop() {
      stopped = true
      for (const { session } of [...idle.values()].flat()) session.abandon()
    },
  }
}

const isGoneBefore = ({ code, cameFirst }: PostgresError): boolean => cameFirst && IS_GONE.test(code)

/** A hash, so that no password is kept. */
const nameOf = ({ serverName, password, parameters }: Login, address: string | undefined): string =>
  createHash('sha256')
    .update(JSON.stringify([address, serverName, password, ...parameters]))
    .digest('base64')
