import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Backoff, backoffMs } from '../../backoff.ts'
import type { ComputeLocation, ConnectTarget } from '../../catalog/compute.ts'
import type { Endpoint } from '../../catalog/endpoint.ts'
import { withSignal } from '../../race.ts'
import type { Pauses } from '../suspend/pauses.ts'
import type { Traffic } from '../suspend/traffic.ts'
import { ProxyError } from '../wire/errors.ts'
import type { ScramKeys } from '../wire/scram.ts'
import { addressOf } from './compute.ts'
import { openSession } from './compute_login.ts'
import type { SpeculativeOpen } from './speculative_open.ts'
import type { Waker } from './wake.ts'

/** Result of a login. */
export interface Admitted {
  readonly keys: ScramKeys
  readonly target: ConnectTarget & Pick<Endpoint, 'project_id' | 'writes_refused'>
  /** A speculative session at the compute. */
  readonly speculative?: SpeculativeOpen | undefined
}

export interface Reached {
  readonly address: ComputeLocation
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
 * Errors: unknown_endpoint, disabled_endpoint, start_failed, not_in_time, too_many_connections.
 */
export async function reachCompute(
  waker: Waker,
  pauses: Pauses,
  traffic: Traffic,
  startup: Buffer,
  { target, keys, speculative }: Admitted,
  signal: AbortSignal,
): Promise<Reached> {
  const { endpointId } = traffic
  const toWake = { id: endpointId, project_id: target.project_id }
  if (traffic.writesRefused === undefined) traffic.writesRefused = target.writes_refused
  const find = (): Promise<ConnectTarget> => waker.find(endpointId)
  // An idle endpoint may be active by now: a lookup costs less than another request to start it.
  let ask = target.current_state === 'active' ? async (): Promise<ConnectTarget> => target : find
  let away: ProxyError | undefined
  const begun = performance.now()
  let hadToWake = false
  const wake = (deadComputeId?: string): Promise<ConnectTarget> => {
    hadToWake = true
    return waker.wake(toWake, deadComputeId)
  }
  const reason = (): unknown => (away && isTimeout(signal.reason) ? away : signal.reason)

  for (let turn = 0; ; turn++) {
    if (turn > 1) await withSignal(sleep(retryMs(turn)), signal, reason)
    const endpoint = await withSignal(ask(), signal, reason).catch((error: unknown) => {
      if (signal.aborted || !(error instanceof ProxyError) || error.reason !== 'catalog_away') throw error
      away = error
    })
    if (!endpoint) continue
    away = undefined
    ask = find
    if (endpoint.holding_operation_id !== null || traffic.pause) {
      await withSignal(pauses.pass(traffic), signal)
      continue
    }
    const address = addressOf(endpoint)
    if (!address) {
      ask = wake
      continue
    }
    const isPaused = (): boolean => traffic.pause !== undefined
    const opening = speculative?.take(address) ?? openSession(address, startup)
    const answer = await opening.logIn(keys, isPaused, signal)
    // A compute that has not answered before the client disconnects is not treated as gone.
    if (signal.aborted) throw signal.reason
    const computeId = endpoint.compute_id ?? undefined
    if (answer.is === 'connected') {
      if (!traffic.pause) {
        if (hadToWake) waker.onOpened?.((performance.now() - begun) / 1000)
        return { address, computeId, socket: answer.socket, first: answer.first, key: answer.key }
      }
      // The client has seen nothing of this session yet, so restart.
      answer.socket.destroy()
    }
    if (answer.is === 'no_descriptors') throw new ProxyError('too_many_connections')
    if (answer.is === 'unavailable') ask = () => wake(computeId)
  }
}

/** The wait before a turn: none for 0 and 1 (a lookup; after a wake the compute), then 25, 50, 100, … milliseconds. */
export const retryMs = (turn: number): number => backoffMs(turn - 1, RETRY)

const isTimeout = (reason: unknown): boolean => reason instanceof ProxyError && reason.reason === 'not_in_time'
