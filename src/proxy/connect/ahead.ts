import type { Duplex } from 'node:stream'
import type { ConnectTarget } from '../../catalog/compute.ts'
import { addressOf, type SessionAddress, type SessionOpening, openSession } from './compute.ts'

/**
 * Limits of speculative pre-auth connections per proxy process and per compute, whose sessions serve all its clients.
 */
const MAX_OPEN = 8
const MAX_OPEN_PER_COMPUTE = 4
const open = new Set<SessionOpening>()

/** A speculative session at a compute, opened before its client's login is complete. */
export interface Ahead {
  /** Returns the opening, which the caller then owns; undefined if it is at another address or already taken. */
  take(address: SessionAddress): SessionOpening | undefined
}

/**
 * Opens a session at an endpoint's compute during the client's login, since Postgres needs time to fork the server
 * process and to send the challenge. The session is dropped with the client unless it was taken.
 * @param target the endpoint's compute. Returns undefined if it is idle or paused, or the limits are reached
 */
export function openAhead(target: ConnectTarget, startup: Buffer, client: Duplex): Ahead | undefined {
  const address = target.holding_operation_id === null ? addressOf(target) : undefined
  if (!address || open.size >= MAX_OPEN || client.destroyed) return undefined
  const there = [...open].filter(({ address: { host, port } }) => host === address.host && port === address.port)
  if (there.length >= MAX_OPEN_PER_COMPUTE) return undefined
  const opening = openSession(address, startup)
  let isThere = true
  open.add(opening)

  const leave = (): void => {
    if (!isThere) return
    isThere = false
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
      if (!isThere || host !== address.host || port !== address.port) return undefined
      leave()
      return opening
    },
  }
}
