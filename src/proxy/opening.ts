import type { Duplex } from 'node:stream'
import { ProxyError } from './errors.ts'
import { readPacket, TLS_HANDSHAKE } from './packet.ts'
import { CANCEL_REQUEST, GSSENC_REQUEST, packetCode, SSL_REQUEST } from './startup.ts'

/*
 * How a connection begins (Postgres manual, "SSL Session Encryption", "GSSAPI Session Encryption"):
 *
 *   plain ──SSLRequest──▶ 'S' ──▶ TLS handshake ──▶ startup packet ──▶ session
 *     │ ▲                           ▲       └── plaintext behind the SSLRequest: dropped, and refused within TLS
 *     │ └─'N'─GSSENCRequest         └── first byte is TLS already, protocol agreed on by ALPN (HTTP where none was)
 *     ├──CancelRequest──▶ cancel
 *     └──StartupMessage──▶ refused: no session without TLS
 *
 * Each of the three stages may take a third of the fifteen seconds that the whole may take.
 */
export const STAGE_MS = 5_000

/** The names under which ALPN knows the two protocols (RFC 7301). */
export const [ALPN, ALPN_HTTP] = ['postgresql', 'http/1.1'] as const

/**
 * What a client that speaks plainly wants: TLS, having asked for it or begun with it, or to cancel a query; or TLS with plaintext sent ahead,
 * which nobody reads.
 */
export type ClientOpening =
  | { readonly wants: 'tls' | 'direct tls' | 'tls after plaintext' }
  | { readonly wants: 'cancel'; readonly packet: Buffer }

/** Reads what comes before TLS. Errors: insecure, malformed, too_slow, ClientGone. */
export async function readOpening(socket: Duplex): Promise<ClientOpening> {
  let packet = await readPacket(socket, STAGE_MS)
  if (packet !== 'tls' && packetCode(packet) === GSSENC_REQUEST) {
    socket.write('N')
    packet = await readPacket(socket, STAGE_MS)
  }
  if (packet === 'tls') return { wants: 'direct tls' }
  switch (packetCode(packet)) {
    case SSL_REQUEST:
      socket.write('S')
      return { wants: dropPlaintext(socket) ? 'tls after plaintext' : 'tls' }
    case CANCEL_REQUEST:
      return { wants: 'cancel', packet }
    case GSSENC_REQUEST:
      throw new ProxyError('malformed', { text: 'GSSENCRequest sent twice' })
    default:
      throw new ProxyError('insecure')
  }
}

/**
 * Drops what was sent before the answer to SSLRequest: it was not encrypted, and somebody in between may have put it there (CVE-2021-23222).
 * A TLS handshake that begins there stays, as in Postgres since 17: it vouches for itself. Answers whether anything was dropped.
 */
function dropPlaintext(socket: Duplex): boolean {
  const early = socket.read() as Buffer | null
  if (early === null) return false
  if (early[0] !== TLS_HANDSHAKE) return true
  socket.unshift(early)
  return false
}

/** Reads the first packet inside TLS, which is a StartupMessage or a CancelRequest. Errors: malformed, too_slow, ClientGone. */
export async function readFirstPacket(socket: Duplex): Promise<Buffer> {
  const packet = await readPacket(socket, STAGE_MS)
  if (packet === 'tls') throw new ProxyError('malformed')
  const code = packetCode(packet)
  if (code === SSL_REQUEST || code === GSSENC_REQUEST)
    throw new ProxyError('malformed', { text: 'encryption requested twice' })
  return packet
}
