import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { createHash } from 'node:crypto'

/** Who is at the other end: a program over TLS, or one that came over HTTP. */
export interface Client {
  readonly stream: Duplex
  /** Its IP address. */
  readonly address: string | undefined
  /** The host that it says it wants: by TLS (SNI, RFC 6066), or by what came with its request. */
  readonly serverName: string | undefined
  /** How it shows its password: without telling it, bound to what is around its bytes, or in clear text within TLS. */
  readonly shows: 'scram' | 'password'
  /** The hash of the certificate that it was shown (RFC 5929, section 4.1); nothing where its kind of signature names none. */
  readonly binding: Buffer | undefined
  /** Told once the client has logged in. */
  readonly onLoggedIn?: (endpointId: string) => void
}

/** A client whose TLS handshake is over. */
export function tlsClient(socket: TLSSocket, address: string | undefined): Client {
  return {
    stream: socket,
    address,
    serverName: typeof socket.servername === 'string' ? socket.servername : undefined,
    shows: 'scram',
    binding: bindingOf(socket),
  }
}

function bindingOf(socket: TLSSocket): Buffer | undefined {
  const shown = socket.getX509Certificate()
  const hash = /sha-?(256|384|512)/i.exec(shown?.signatureAlgorithm ?? '')?.[1]
  return shown && hash !== undefined ? createHash(`sha${hash}`).update(shown.raw).digest() : undefined
}
