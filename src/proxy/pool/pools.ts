import { cancelAtCompute } from '../session/cancel.ts'
import { ProxyError } from '../wire/errors.ts'
import type { Pauses } from '../suspend/pauses.ts'
import { MESSAGE_HEAD, messageAt } from '../wire/messages.ts'
import { type Admitted, reachCompute, type Reached } from '../connect/reach.ts'
import { encodeStartup, PROTOCOL_3_2 } from '../wire/startup.ts'
import type { TrafficTable } from '../suspend/traffic.ts'
import { limitWait } from '../connect/time_limit.ts'
import type { Waker } from '../connect/wake.ts'
import { refusedBy } from './expected.ts'
import type { Parameters } from './parameters.ts'
import { createPool, type Pool, type ServerHooks } from './pool.ts'
import { ERROR_RESPONSE, PARAMETER_STATUS } from '../wire/message_types.ts'
import { createPoolServer } from './server.ts'
import type { PoolServer } from './server_interface.ts'

/** The key of a pool: sessions of one user and database of an endpoint may be shared. */
export interface PoolName {
  readonly endpointId: string
  /** As in the startup packet, in Latin-1. */
  readonly user: string
  readonly database: string
}

export interface Pools {
  /**
   * Returns the pool of that name and password, and creates it if needed: after a change of the password, or of the
   * role, clients that logged in before get no session of clients that logged in since.
   * @param admitted the login of its latest client, which opens server connections from now on
   */
  enter(name: PoolName, admitted: Admitted): Pool
  /** Closes the idle server connections of an endpoint, and for a while those that become idle. */
  closeIdle(endpointId: string): void
  stop(): void
}

export function createPools(options: {
  waker: Waker
  pauses: Pauses
  table: TrafficTable
  wakeTimeoutMs: number
  /** Limit of server connections per pool. */
  size: number
}): Pools {
  const { waker, pauses, table, wakeTimeoutMs, size } = options
  const pools = new Map<string, { pool: Pool; admitted: Admitted; isFresh: boolean }>()

  return {
    enter({ endpointId, user, database }, admitted) {
      const key = [endpointId, user, database, admitted.keys.clientKey.toString('base64')].join('\0')
      const known = pools.get(key)
      if (known) {
        known.admitted = admitted
        known.isFresh = true
        return known.pool
      }
      const traffic = table.enter(endpointId)

      async function open(hooks: ServerHooks, applicationName: string): Promise<PoolServer> {
        const parameters = new Map(Object.entries({ user, database }))
        if (applicationName !== '') parameters.set('application_name', applicationName)
        const startup = encodeStartup({ version: PROTOCOL_3_2, parameters })
        const { keys, target } = entry.admitted
        const reaching = new AbortController()
        const lift = limitWait(waker, endpointId, wakeTimeoutMs, reaching)
        // The compute's address read at a login is used once: it is soon out of date.
        const then = entry.isFresh ? target : { ...target, current_state: 'idle' as const }
        entry.isFresh = false
        try {
          const reached = await reachCompute(waker, pauses, traffic, startup, { keys, target: then }, reaching.signal)
          return serverOf(reached, hooks)
        } finally {
          lift()
        }
      }

      function serverOf(reached: Reached, hooks: ServerHooks): PoolServer {
        return createPoolServer({
          socket: reached.socket,
          computeId: reached.computeId,
          parameters: parametersOf(reached),
          cancel: async () => {
            if (reached.key) await cancelAtCompute(reached.address, reached.key)
          },
          writesRefused: () => traffic.writesRefused,
          onBytes: () => {
            traffic.lastByteAt = Date.now()
          },
          ...hooks,
        })
      }

      const pool = createPool({
        traffic,
        maxServers: size,
        open,
        onEmpty() {
          if (pools.get(key) === entry) pools.delete(key)
          table.leave(traffic)
        },
      })
      const entry = { pool, admitted, isFresh: true }
      pools.set(key, entry)
      return pool
    },
    closeIdle(endpointId) {
      for (const { pool } of pools.values()) if (pool.traffic.endpointId === endpointId) pool.closeIdle()
    },
    stop() {
      for (const { pool } of pools.values()) pool.close()
    },
  }
}

/** The settings that a compute reports for a new session. Errors: compute_refused. */
function parametersOf({ socket, first }: Reached): Parameters {
  const parameters: Parameters = new Map()
  for (let at = 0; ;) {
    const message = messageAt(first, at, first.length)
    if (message === undefined || message === 'invalid') return parameters
    at += MESSAGE_HEAD + message.body.length
    if (message.type === ERROR_RESPONSE) {
      socket.destroy()
      throw new ProxyError('compute_refused', refusedBy(message.body))
    }
    if (message.type !== PARAMETER_STATUS) continue
    const [name = '', value = ''] = message.body.toString('latin1').split('\0')
    parameters.set(name, value)
  }
}
