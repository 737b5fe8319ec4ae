import { createHash } from 'node:crypto'
import type { Serve, HttpClient } from './open_session.ts'
import { PostgresError } from './refusal.ts'
import { createSessionLanes, type Lane, type SessionLanes } from './session_lanes.ts'
import type { SqlSession } from './sql_session.ts'

/** SQLSTATEs of a compute that was suspended, restarted or crashed (57P01 to 57P03). */
const IS_GONE = /^57P0[123]$/

/** The work of a request in its session. It starts again in another session if the first one turns out to be gone. */
export type Work<T> = (session: SqlSession, endpointId: string) => Promise<T>

/** Sessions that requests share in turn: those from the same address with the same connection string. */
export interface SharedSessions {
  /** Errors: those of `openSession` and `run`. */
  use<T>(client: HttpClient, signal: AbortSignal, work: Work<T>): Promise<T>
  /** Ends idle sessions, and keeps no sessions from now on. */
  stop(): void
}

export function createSharedSessions(serve: Serve): SharedSessions {
  const lanes = createSessionLanes(serve)
  return {
    async use(client, signal, work) {
      const { lane, exit } = lanes.enter(nameOf(client))
      try {
        return await useSession(lanes, lane, client, signal, work)
      } finally {
        exit()
      }
    },
    stop: () => lanes.stop(),
  }
}

async function useSession<T>(
  lanes: SessionLanes,
  lane: Lane,
  client: HttpClient,
  signal: AbortSignal,
  work: Work<T>,
): Promise<T> {
  for (;;) {
    const { opened, isNew } = await lanes.take(lane, client, signal)
    const gone = (): void => opened.session.abandon()
    signal.addEventListener('abort', gone)
    if (signal.aborted) gone()
    try {
      return await work(opened.session, opened.endpointId)
    } catch (error) {
      if (isNew || !(error instanceof PostgresError && error.cameFirst && IS_GONE.test(error.code))) throw error
    } finally {
      signal.removeEventListener('abort', gone)
      void lanes.release(lane, opened)
    }
  }
}

/** A hash, so that the name holds no password. */
const nameOf = ({ address, serverName, password, parameters }: HttpClient): string =>
  createHash('sha256')
    .update(JSON.stringify([address, serverName, password, ...parameters]))
    .digest('base64')
