import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import { type AddressInfo, type BlockList, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { Logger } from 'pino'
import { isLoopback, isWithin, ownerOf } from '../network.ts'
import { openFilesLimit, RESERVED_FILES } from '../observe/open_files.ts'
import { type CurrentCertificate, followCertificate, readCertificate } from '../tls/follow.ts'

const BACKLOG = 1024
/** Limit on the silence of a client before its handshake, and on the handshake. */
const SILENCE_MS = 5_000
/** Limit on answers in progress when the API stops. */
const GOODBYE_MS = 10_000
const LOOK_MS = 50

/** The first byte of a TLS handshake (RFC 8446, section 5.1). */
const TLS_HANDSHAKE = 0x16
const PLAIN_REFUSED = [
  'HTTP/1.1 400 Bad Request',
  'content-type: application/json',
  'connection: close',
  '',
  '{"code":"BAD_REQUEST","message":"This API speaks TLS here: ask by https, not http."}',
].join('\r\n')

export interface ApiListeners {
  readonly port: number
  /** Accepts no more connections. */
  close(): void
  /** Ends open connections: idle ones at once, others after their answers, or after ten seconds. */
  end(): Promise<void>
}

export interface ApiPlaces {
  readonly addresses: readonly string[]
  /** The same at each address; 0 takes any free port. */
  readonly port: number
  /** Connections of one client address at once; 0 sets no limit. */
  readonly connectionsPerAddress: number
  /** HTTP proxies, which carry the connections of many clients: they have no limit. */
  readonly unlimited: BlockList
  readonly certificate: CurrentCertificate
  readonly log: Logger
}

/**
 * Passes connections to an HTTP server: plain ones at loopback addresses, TLS at all others.
 * Errors: an address or port is not available (EADDRINUSE, EADDRNOTAVAIL); UsageError (the certificate is unusable).
 */
export async function listenForApi(server: HttpServer, places: ApiPlaces): Promise<ApiListeners> {
  const open = new Set<Socket>()
  const listeners: Server[] = []
  const tls = places.addresses.every(isLoopback) ? undefined : await startTls(server, places)
  // Starts the server's timers for late requests; the server itself listens nowhere.
  server.emit('listening')

  let { port } = places
  for (const host of places.addresses) {
    const listener = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      open.add(socket)
      socket.once('close', () => open.delete(socket))
      if (isLoopback(host)) server.emit('connection', socket)
      else tls?.take(socket)
    })
    // `::` would take IPv4 too.
    const ipv6Only = host.includes(':') && places.addresses.some((address) => !address.includes(':'))
    // During its handshake a client cannot be sent the error that there is no room: limit connections here.
    if (tls) listener.maxConnections = Math.max(1, openFilesLimit() - RESERVED_FILES)
    listener.listen({ host, port, ipv6Only, backlog: BACKLOG })
    await once(listener, 'listening')
    listeners.push(listener)
    port = (listener.address() as AddressInfo).port
  }

  return {
    port,
    close() {
      for (const listener of listeners) listener.close()
      tls?.stop()
    },
    async end() {
      const until = performance.now() + GOODBYE_MS
      while (open.size > 0 && performance.now() < until) {
        server.closeIdleConnections()
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
      }
      for (const socket of open) socket.destroy()
    },
  }
}

/** Answers, continues to read so that a reset does not discard the answer, and closes in any case. */
function refusePlain(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), SILENCE_MS)
  socket.once('close', () => clearTimeout(timer))
  socket.once('end', () => socket.destroy())
  socket.resume().end(PLAIN_REFUSED)
}

/** Terminates TLS for an HTTP server. A client without TLS gets a 400. */
async function startTls(server: HttpServer, { certificate, connectionsPerAddress, unlimited, log }: ApiPlaces) {
  const first = await readCertificate(certificate)
  const tls = createTlsServer({ ...first, ALPNProtocols: ['http/1.1'], handshakeTimeout: SILENCE_MS })
  const stop = followCertificate([tls], certificate, first, log)
  const open = new Map<string, number>()
  tls.on('tlsClientError', (_error, socket) => socket.destroy())
  tls.on('secureConnection', (socket) => server.emit('connection', socket))

  function take(socket: Socket): void {
    const owner = ownerOf(socket.remoteAddress)
    const many = open.get(owner) ?? 0
    socket.on('error', () => {})
    // The HTTP server limits connections after their handshake; allow as many again during it.
    const isLimited = connectionsPerAddress > 0 && !isWithin(socket.remoteAddress, unlimited)
    if (isLimited && many >= 2 * connectionsPerAddress) return void socket.destroy()
    open.set(owner, many + 1)
    const silence = setTimeout(() => socket.destroy(), SILENCE_MS)
    socket.once('close', () => {
      clearTimeout(silence)
      const left = (open.get(owner) ?? 0) - 1
      if (left > 0) open.set(owner, left)
      else open.delete(owner)
    })
    socket.once('readable', () => {
      clearTimeout(silence)
      begin(socket)
    })
  }

  function begin(socket: Socket): void {
    const bytes = socket.read() as Buffer | null
    if (bytes === null) socket.destroy()
    else if (bytes[0] !== TLS_HANDSHAKE) refusePlain(socket)
    else {
      socket.unshift(bytes)
      tls.emit('connection', socket)
    }
  }

  return { take, stop }
}
