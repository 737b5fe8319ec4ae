import type { Duplex } from 'node:stream'
import type { ComputeLocation, ConnectTarget } from '../../catalog/compute.ts'
import { addressOf } from './compute.ts'
import { openSession, type SessionOpening } from './compute_login.ts'

/**
 * Limits of speculative pre-auth connections per proxy process and per compute, whose sessions serve all its clients.
 */
const MAX_SPECULATIVE_OPENINGS = 8
const MAX_SPECULATIVE_OPENINGS_PER_COMPUTE = 4
const open = new Set<SessionOpening>()

/** A speculative session at a compute, opened before its client's login is complete. */
export interface SpeculativeOpen {
  /** Returns the opening, which the caller then owns; undefined if it is at another address or already taken. */
  take(address: ComputeLocation): SessionOpening | undefined
}

/**
 * Opens a session at an endpoint's compute during the client's login, since Postgres needs time to fork the server
 * process and to send the challenge. The session is dropped with the client unless it was taken.
 * @param target the endpoint's compute. Returns undefined if it is idle or paused, or the limits are reached
 */
export function openSpeculatively(target: ConnectTarget, startup: Buffer, client: Duplex): SpeculativeOpen | undefined {
  const address = target.holding_operation_id === null ? addressOf(target) : undefined
  if (!address || open.size >= MAX_SPECULATIVE_OPENINGS || client.destroyed) return undefined
  const atCompute = [...open].filter(({ address: { host, port } }) => host === address.host && port === address.port)
  if (atCompute.length >= MAX_SPECULATIVE_OPENINGS_PER_COMPUTE) return undefined
  const opening = openSession(address, startup)
  let isAvailable = true
  open.add(opening)

  const leave = (): void => {
    if (!isAvailable) return
    isAvailable = false
    open.delete(opening)
    client.off('close', drop)
  }
  const drop = (): void => {
    leave()
    opening.drop()
  }
  opening.onLost = leave
  client.once('close', drop)

  return {
    take({ host, port }) {
      if (!isAvailable || host !== address.host || port !== address.port) return undefined
      leave()
      return opening
    },
  }
}
