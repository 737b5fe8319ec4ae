import type { Duplex } from 'node:stream'
import { isAllowed } from '../accept/allow_list.ts'
import type { LoggedIn } from '../auth/client_login.ts'
import { reachCompute } from '../connect/reach.ts'
import { limitWait } from '../connect/time_limit.ts'
import type { Waker } from '../connect/wake.ts'
import type { Pauses } from '../suspend/pauses.ts'
import type { TrafficTable } from '../suspend/traffic.ts'
import { ClientGone, ProxyError } from '../wire/errors.ts'
import { encodeStartup, type Startup } from '../wire/startup.ts'
import { cancelAtCompute } from './cancel.ts'
import { MAX_SESSIONS, type SessionContext } from './session_context.ts'
import { spliceSession } from './splice.ts'

/** State shared by all direct sessions. */
export interface DirectContext extends SessionContext {
  readonly table: TrafficTable
  readonly pauses: Pauses
  readonly waker: Waker
  /** Time limit of a client's wait for its endpoint. */
  readonly wakeTimeoutMs: number
}

/** Connects the client to its own session at the compute. Returns once bytes are forwarded. */
export async function joinCompute(
  context: DirectContext,
  client: Duplex,
  startup: Startup,
  { endpointId, allowed, ...admitted }: LoggedIn,
): Promise<void> {
  const { table, sessions, pauses, waker, cancelKeys } = context
  if (client.destroyed) throw new ClientGone('closed right after its startup packet')
  if (sessions.size >= MAX_SESSIONS) throw new ProxyError('too_many_connections')
  const traffic = table.enter(endpointId)
  const session = spliceSession(client, traffic)
  sessions.add(session)
  client.once('close', () => {
    sessions.delete(session)
    table.leave(traffic)
  })
  const reaching = new AbortController()
  const gone = (): void => reaching.abort(new ClientGone('closed before it was connected'))
  const lift = limitWait(waker, endpointId, context.wakeTimeoutMs, reaching)
  client.once('end', gone).once('close', gone)
  try {
    const reached = await reachCompute(waker, pauses, traffic, encodeStartup(startup), admitted, reaching.signal)
    const { key, address } = reached
    const cancel = async (): Promise<void> => {
      if (key) await cancelAtCompute(address, key)
    }
    if (key) {
      const admits = (from: string | undefined): boolean => isAllowed(from, allowed)
      client.once('close', cancelKeys.remember(key, { cancel, admits }))
    }
    session.attach(reached.socket, reached.first, reached.computeId, () => void cancel())
  } finally {
    lift()
    client.off('end', gone).off('close', gone)
  }
}
