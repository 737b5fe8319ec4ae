import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Backoff, backoffMs } from '../../backoff.ts'
import { withSignal } from '../../race.ts'
import type { ConnectTarget } from '../../catalog/compute.ts'
import type { Ahead } from './ahead.ts'
import { addressOf, type SessionAddress, openSession } from './compute.ts'
import { ProxyError } from '../wire/errors.ts'
import type { Holds } from '../suspend/holds.ts'
import type { ScramKeys } from '../wire/scram.ts'
import type { Traffic } from '../suspend/traffic.ts'
import type { Waker } from './wake.ts'

/** Result of a login. */
export interface Admitted {
  readonly keys: ScramKeys
  readonly target: ConnectTarget
  /** A speculative session at the compute. */
  readonly ahead?: Ahead | undefined
}

export interface Reached {
  readonly address: SessionAddress
  readonly computeId: string | undefined
  readonly socket: Socket
  /** Bytes that the compute has sent already. */
  readonly first: Buffer
  /** The body of BackendKeyData. */
  readonly key: Buffer | undefined
}

const RETRY: Backoff = { firstMs: 25, maxMs: 500 }

/**
 * Connects to the endpoint's compute. Waits while the endpoint is paused, wakes it when it is idle or its compute is
 * gone, and retries when the compute has no free slot or the catalog is away.
 * @param startup the packet to open the session with
 * @param admitted the client's keys, and the endpoint as of the login's lookup, which may be seconds old
 * @param signal ends the attempt; its reason is thrown, or catalog_away if that caused a time-out
 * Errors: unknown_endpoint, disabled_endpoint, start_failed, not_in_time, crowded.
 */
export async function reachCompute(
  waker: Waker,
  holds: Holds,
  traffic: Traffic,
  startup: Buffer,
  { target, keys, ahead }: Admitted,
  signal: AbortSignal,
): Promise<Reached> {
  const { endpointId } = traffic
  const find = (): Promise<ConnectTarget> => waker.find(endpointId)
  // An idle endpoint may be active by now: a lookup costs less than another request to start it.
  let ask = target.current_state === 'active' ? async (): Promise<ConnectTarget> => target : find
  let away: ProxyError | undefined
  const reason = (): unknown => (away && isTimeout(signal.reason) ? away : signal.reason)

  for (let turn = 0; ; turn++) {
    if (turn > 1) await withSignal(sleep(pauseMs(turn)), signal, reason)
    const endpoint = await withSignal(ask(), signal, reason).catch((error: unknown) => {
      if (signal.aborted || !(error instanceof ProxyError) || error.reason !== 'catalog_away') throw error
      away = error
    })
    if (!endpoint) continue
    away = undefined
    ask = find
    if (endpoint.holding_operation_id !== null || traffic.hold) {
      await withSignal(holds.pass(traffic), signal)
      continue
    }
    const address = addressOf(endpoint)
    if (!address) {
      ask = () => waker.wake(endpointId, undefined)
      continue
    }
    const isHeld = (): boolean => traffic.hold !== undefined
    const opening = ahead?.take(address) ?? openSession(address, startup)
    const answer = await opening.logIn(keys, isHeld, signal)
    // A compute that has not answered before the client disconnects is not treated as gone.
    if (signal.aborted) throw signal.reason
    const computeId = endpoint.compute_id ?? undefined
    if (answer.is === 'there') {
      if (!traffic.hold) return { address, computeId, socket: answer.socket, first: answer.first, key: answer.key }
      // The client has seen nothing of this session yet, so restart.
      answer.socket.destroy()
    }
    if (answer.is === 'unasked') throw new ProxyError('crowded')
    if (answer.is === 'gone') ask = () => waker.wake(endpointId, computeId)
  }
}

/** Turns 0 and 1 start at once (a lookup; after a wake the compute). Later pauses: 25, 50, 100, … milliseconds. */
export const pauseMs = (turn: number): number => backoffMs(turn - 1, RETRY)

const isTimeout = (reason: unknown): boolean => reason instanceof ProxyError && reason.reason === 'not_in_time'
