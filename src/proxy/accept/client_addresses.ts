import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { cidrList, forwardedAddress, isWithin } from '../../network.ts'
import { readProxyHeader } from './proxy_protocol.ts'

/** Addresses of clients, including those behind a forwarder. */
export interface ClientAddresses {
  /** Reads the PROXY header of a connection from a configured forwarder. Errors: those of `readProxyHeader`. */
  read(socket: Socket, ms: number): Promise<void>
  /** The client's IP address, also for a TLS socket on the connection. */
  of(socket: Pick<Socket, Peer>): string | undefined
  /** The client's address of an HTTP request, from `X-Forwarded-For` as far as its proxies are trusted. */
  ofRequest(request: IncomingMessage): string | undefined
}

/** The networks (CIDR) of forwarders that may state a client's address. */
export interface Forwarders {
  /** Forwarders that begin each connection with the PROXY protocol, which is required from these networks. */
  readonly proxyProtocol: readonly string[]
  /** HTTP proxies that append it to `X-Forwarded-For`. */
  readonly forwardedFor: readonly string[]
}

type Peer = 'remoteAddress' | 'remotePort' | 'localAddress' | 'localPort'

export function createClientAddresses({ proxyProtocol, forwardedFor }: Forwarders): ClientAddresses {
  const [forwarders, httpProxies] = [cidrList(proxyProtocol), cidrList(forwardedFor)]
  /** By the connection's 4-tuple: a TLS socket has the same one, and does not expose its underlying socket. */
  const forwarded = new Map<string, string>()
  const nameOf = ({ remoteAddress, remotePort, localAddress, localPort }: Pick<Socket, Peer>): string =>
    `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`

  const of = (socket: Pick<Socket, Peer>): string | undefined =>
    (forwarded.size === 0 ? undefined : forwarded.get(nameOf(socket))) ?? socket.remoteAddress

  return {
    async read(socket, ms) {
      if (!isWithin(socket.remoteAddress, forwarders)) return
      const name = nameOf(socket)
      const address = await readProxyHeader(socket, ms)
      if (address === undefined || socket.destroyed) return
      forwarded.set(name, address)
      socket.once('close', () => forwarded.delete(name))
    },
    of,
    ofRequest: ({ socket, headers }) => forwardedAddress(of(socket), headers['x-forwarded-for'], httpProxies),
  }
}
