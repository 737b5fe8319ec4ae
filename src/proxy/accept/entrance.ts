/*
 * The way of a connection to the protocol that serves it:
 *
 *   accepted ─▶ address known ─▶ within limits ─▶ first packets ─┬─▶ TLS ─ALPN─▶ Postgres
 *                                                               │          └───▶ HTTP
 *                                                               ├─▶ TLS, and refused there: plaintext after SSLRequest
 *                                                               └─▶ cancel
 *   any of them ─▶ refused: over a limit, malformed, too slow, not encrypted
 */
import type { Socket } from 'node:net'
import { createServer, type Server, type TlsOptions, type TLSSocket } from 'node:tls'
import { closeGently, refuse } from '../wire/close.ts'
import { ClientGone, ProxyError } from '../wire/errors.ts'
import { asProxyError, type ReportContext } from '../wire/report.ts'
import type { Client } from './client.ts'
import type { ClientAddresses } from './client_addresses.ts'
import { ALPN, ALPN_HTTP, readOpening, STAGE_MS } from './first_packets.ts'
import type { Limits } from './limits.ts'

export interface EntranceOptions extends ReportContext {
  readonly certificate: TlsOptions
  readonly clientAddresses: ClientAddresses
  readonly limits: Limits
  readonly servePostgres: (socket: TLSSocket) => void
  readonly serveHttp: (socket: TLSSocket) => void
  readonly cancel: (client: Pick<Client, 'stream' | 'address'>, packet: Buffer) => void
}

export interface Entrance {
  /** Takes an accepted connection. Never rejects: errors are sent to the client or logged. */
  accept(socket: Socket): Promise<void>
  /** Their certificate may be replaced. */
  readonly tlsServers: readonly Server[]
}

export function createEntrance(options: EntranceOptions): Entrance {
  const { certificate, clientAddresses, limits, servePostgres, serveHttp, cancel } = options
  const servers = {
    tls: tlsServer(certificate, [ALPN], servePostgres),
    'direct tls': tlsServer(certificate, [ALPN, ALPN_HTTP], (socket) => {
      if (socket.alpnProtocol === ALPN) servePostgres(socket)
      else serveHttp(socket)
    }),
    'tls after plaintext': tlsServer(certificate, [ALPN], (socket) =>
      refuse(socket, asProxyError(new ProxyError('early_data'), options)),
    ),
  }

  return {
    async accept(socket) {
      try {
        await clientAddresses.read(socket, STAGE_MS)
        const address = clientAddresses.of(socket)
        limits.accept(socket, address)
        const opening = await readOpening(socket)
        if (opening.wants === 'cancel') cancel({ stream: socket, address }, opening.packet)
        else servers[opening.wants].emit('connection', socket)
      } catch (error) {
        if (error instanceof ClientGone) closeGently(socket)
        else refuse(socket, asProxyError(error, options))
      }
    },
    tlsServers: Object.values(servers),
  }
}

function tlsServer(certificate: TlsOptions, protocols: string[], serve: (socket: TLSSocket) => void): Server {
  const tls = createServer({ ...certificate, ALPNProtocols: protocols, handshakeTimeout: STAGE_MS })
  tls.on('tlsClientError', (_error, socket) => socket.destroy())
  return tls.on('secureConnection', (socket) => {
    socket.on('error', () => {})
    serve(socket)
  })
}
