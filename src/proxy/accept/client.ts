import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { createHash } from 'node:crypto'

/** A client, over TLS or from the SQL-over-HTTP server. */
export interface Client {
  readonly stream: Duplex
  /** Its IP address. */
  readonly address: string | undefined
  /** The requested host name: SNI (RFC 6066), or that of an HTTP request. */
  readonly serverName: string | undefined
  /** The authentication method: SCRAM, or a clear-text password within TLS. */
  readonly authentication: 'scram' | 'password'
  /**
   * Hash of the server certificate for channel binding (RFC 5929, section 4.1). undefined over HTTP, and when the
   * signature algorithm names neither SHA-256, SHA-384 nor SHA-512.
   */
  readonly binding: Buffer | undefined
  /**
   * Called when the login begins to wait for a person: the connection no longer counts as one that logs in. undefined
   * where a login cannot wait (over HTTP).
   */
  readonly onWaiting?: () => void
  /** Called after the client's login. */
  readonly onLoggedIn?: (endpointId: string) => void
}

export function tlsClient(socket: TLSSocket, address: string | undefined): Client {
  return {
    stream: socket,
    address,
    serverName: typeof socket.servername === 'string' ? socket.servername : undefined,
    authentication: 'scram',
    binding: bindingOf(socket),
  }
}

function bindingOf(socket: TLSSocket): Buffer | undefined {
  const certificate = socket.getX509Certificate()
  const hash = /sha-?(256|384|512)/i.exec(certificate?.signatureAlgorithm ?? '')?.[1]
  return certificate && hash !== undefined ? createHash(`sha${hash}`).update(certificate.raw).digest() : undefined
}
