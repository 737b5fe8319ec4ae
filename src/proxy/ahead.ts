import type { Duplex } from 'node:stream'
import type { ConnectTarget } from '../catalog/endpoint.ts'
import { addressOf, type SessionAddress, type SessionOpening, openSession } from './compute.ts'

/** Limits speculative pre-auth connections: of one proxy, and to one compute, since its sessions are for all its clients. */
const MAX_OPEN = 8
const MAX_OPEN_PER_COMPUTE = 4
const open = new Set<SessionOpening>()

/** A session at a compute whose opening was begun before it is known whether its client may enter. */
export interface Ahead {
  /** The opening, if it is at this address and nobody has taken it. It belongs to the caller then. */
  take(address: SessionAddress): SessionOpening | undefined
}

/**
 * Begins to open a session at the compute of an endpoint while its client still proves who it is, since Postgres takes a while to make the
 * process for it and to ask for the proof. It is dropped with the client if nobody has taken it.
 * @param target where the endpoint is; nothing is begun if it sleeps, is held, or there are many such
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
