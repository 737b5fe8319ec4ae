import type { Duplex } from 'node:stream'
import { ProxyError } from '../wire/errors.ts'
import { readPacket, TLS_HANDSHAKE } from '../wire/packet.ts'
import { CANCEL_REQUEST, GSSENC_REQUEST, packetCode, SSL_REQUEST } from '../wire/startup.ts'

/*
 * The beginning of a connection (Postgres manual, "SSL Session Encryption", "GSSAPI Session Encryption"):
 *
 *   plain ──SSLRequest──▶ 'S' ──▶ TLS handshake ──▶ startup packet ──▶ session
 *     │ ▲                           ▲       └── plaintext behind the SSLRequest: dropped, and refused within TLS
 *     │ └─'N'─GSSENCRequest         └── first byte is TLS already, protocol selected by ALPN (default HTTP)
 *     ├──CancelRequest──▶ cancel
 *     └──StartupMessage──▶ refused: no session without TLS
 *
 * Each packet and the TLS handshake have a time limit of STAGE_MS.
 */
export const STAGE_MS = 5_000

/** The ALPN names of the two protocols (RFC 7301). */
export const [ALPN, ALPN_HTTP] = ['postgresql', 'http/1.1'] as const

/** A client's first request: TLS (by SSLRequest or directly), TLS after plaintext, which is dropped, or cancel. */
export type ClientOpening =
  | { readonly wants: 'tls' | 'direct tls' | 'tls after plaintext' }
  | { readonly wants: 'cancel'; readonly packet: Buffer }

/** Reads the packets before TLS. Errors: insecure, malformed, too_slow, ClientGone. */
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
 * Drops bytes sent before the answer to SSLRequest: they are not encrypted, and a man in the middle may have injected
 * them (CVE-2021-23222). A TLS handshake is kept, as in Postgres since 17: it authenticates itself. Returns whether
 * bytes were dropped.
 */
function dropPlaintext(socket: Duplex): boolean {
  const early = socket.read() as Buffer | null
  if (early === null) return false
  if (early[0] !== TLS_HANDSHAKE) return true
  socket.unshift(early)
  return false
}

/** Reads the first packet inside TLS: a StartupMessage or a CancelRequest. Errors: malformed, too_slow, ClientGone. */
export async function readFirstPacket(socket: Duplex): Promise<Buffer> {
  const packet = await readPacket(socket, STAGE_MS)
  if (packet === 'tls') throw new ProxyError('malformed')
  const code = packetCode(packet)
  if (code === SSL_REQUEST || code === GSSENC_REQUEST)
    throw new ProxyError('malformed', { text: 'encryption requested twice' })
  return packet
}
