import { connect, type Socket } from 'node:net'
import { computeAddress, type ComputeLocation, type ConnectTarget } from '../../catalog/compute.ts'

export type SessionAddress = ComputeLocation

/** Opens a socket to a compute. As in libpq, a host that begins with a slash is the directory of the Unix socket. */
export function openCompute({ host, port }: SessionAddress): Socket {
  const options = { allowHalfOpen: true, noDelay: true, keepAlive: true }
  return host.startsWith('/')
    ? connect({ ...options, path: `${host}/.s.PGSQL.${port}` })
    : connect({ ...options, host, port })
}

/** The address of the endpoint's compute. undefined when no compute runs. */
export const addressOf = (target: ConnectTarget): SessionAddress | undefined =>
  target.current_state === 'active' ? computeAddress(target) : undefined
