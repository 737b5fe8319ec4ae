import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ConnectTarget } from '../catalog/endpoint.ts'
import { addressOf, type ComputeAddress, openCompute } from './compute.ts'

/** So many at a time in one proxy: who knows no password can have computes make no more processes than that. */
const MOST = 16
let open = 0

/** A socket to a compute, opened before it is known whether its client may enter. */
export interface Ahead {
  /** The socket, if it leads to this address and nobody has taken it. It belongs to the caller then. */
  take(address: ComputeAddress): Socket | undefined
}

/**
 * Opens a socket to the compute of an endpoint while its client still proves who it is, since Postgres takes a while to make the process
 * for it. Nothing is sent, so that the compute knows of no session. It is closed with the client if nobody has taken it.
 * @param target where the endpoint is; nothing is opened if it sleeps, is held, or many are open so
 */
export function openAhead(target: ConnectTarget, client: Duplex): Ahead | undefined {
  const address = target.holding_operation_id === null ? addressOf(target) : undefined
  if (!address || open >= MOST || client.destroyed) return undefined
  const socket = openCompute(address)
  let taken = false
  open++

  const lost = (): void => {
    open--
    client.off('close', drop)
  }
  const drop = (): void => void socket.destroy()
  // Who takes it listens for itself; an error is followed by 'close'.
  socket.on('error', () => {}).once('close', lost)
  client.once('close', drop)

  return {
    take({ host, port }) {
      if (taken || socket.destroyed || host !== address.host || port !== address.port) return undefined
      taken = true
      socket.off('close', lost)
      lost()
      return socket
    },
  }
}
