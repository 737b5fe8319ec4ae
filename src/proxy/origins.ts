import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { cidrList, forwardedAddress, isWithin } from '../network.ts'
import { readProxyHeader } from './proxy_protocol.ts'

/** Knows the addresses of clients, also of those that come through a forwarder. */
export interface Origins {
  /** Reads what a forwarder says of a connection, where it comes from one. Errors: those of `readProxyHeader`. */
  read(socket: Socket, ms: number): Promise<void>
  /** The client's IP address. A TLS socket has that of the connection it is on. */
  of(socket: Pick<Socket, Peer>): string | undefined
  /** The address of the client of an HTTP request: as its proxies state it, where they are trusted. */
  ofRequest(request: IncomingMessage): string | undefined
}

/** The networks (CIDR) whose forwarders may state a client's address. */
export interface Forwarders {
  /** Those that begin each connection with it by the PROXY protocol; from there it is required. */
  readonly proxyProtocol: readonly string[]
  /** HTTP proxies that add it to `X-Forwarded-For`. */
  readonly forwardedFor: readonly string[]
}

type Peer = 'remoteAddress' | 'remotePort' | 'localAddress' | 'localPort'

export function createOrigins({ proxyProtocol, forwardedFor }: Forwarders): Origins {
  const [forwarders, httpProxies] = [cidrList(proxyProtocol), cidrList(forwardedFor)]
  /** By the four that name a connection while it lasts: TLS sockets answer them too, and do not tell what they are on. */
  const told = new Map<string, string>()
  const nameOf = ({ remoteAddress, remotePort, localAddress, localPort }: Pick<Socket, Peer>): string =>
    `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`

  const of = (socket: Pick<Socket, Peer>): string | undefined =>
    (told.size === 0 ? undefined : told.get(nameOf(socket))) ?? socket.remoteAddress

  return {
    async read(socket, ms) {
      if (!isWithin(socket.remoteAddress, forwarders)) return
      const name = nameOf(socket)
      const address = await readProxyHeader(socket, ms)
      if (address === undefined || socket.destroyed) return
      told.set(name, address)
      socket.once('close', () => told.delete(name))
    },
    of,
    ofRequest: ({ socket, headers }) => forwardedAddress(of(socket), headers['x-forwarded-for'], httpProxies),
  }
}
