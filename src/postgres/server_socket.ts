import { connect, type Socket } from 'node:net'

/** The Unix socket of a server that listens in a directory. */
export const socketPath = (directory: string, port: number): string => `${directory}/.s.PGSQL.${port}`

/**
 * Opens a socket to a server of Postgres. As in libpq, a host that begins with a slash is the directory of its Unix
 * socket (Postgres manual, "Parameter Key Words"). Neap's own sessions follow the same rule through the driver.
 */
export function openServerSocket({ host, port }: { readonly host: string; readonly port: number }): Socket {
  const options = { allowHalfOpen: true, noDelay: true, keepAlive: true }
  return host.startsWith('/')
    ? connect({ ...options, path: socketPath(host, port) })
    : connect({ ...options, host, port })
}
