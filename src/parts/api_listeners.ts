import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import { type AddressInfo, type BlockList, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { Logger } from 'pino'
import { isLoopback, isWithin, ownerOf } from '../network.ts'
import { openFilesLimit, RESERVED_FILES } from '../observe/open_files.ts'
import { type CurrentCertificate, followCertificate, readCertificate } from '../tls/follow.ts'

const BACKLOG = 1024
/** How long a client may be silent before its handshake, and that may take. */
const SILENCE_MS = 5_000
/** How long answers that are under way may take when the API ends. */
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
  /** Takes no more connections. */
  close(): void
  /** Ends the connections there are: idle ones at once, others after their answers, or after ten seconds. */
  end(): Promise<void>
}

export interface ApiPlaces {
  readonly addresses: readonly string[]
  /** The same at each; 0 takes any that is free. */
  readonly port: number
  /** Of one client address at once; 0 sets no limit. */
  readonly connectionsPerAddress: number
  /** HTTP proxies, whose connections are those of all their clients: they have no limit. */
  readonly unlimited: BlockList
  readonly certificate: CurrentCertificate
  readonly log: Logger
}

/**
 * Feeds an HTTP server with connections: plain ones at addresses of loopback, TLS at all others.
 * Errors: an address or port cannot be had (EADDRINUSE, EADDRNOTAVAIL); UsageError where the certificate does not serve.
 */
export async function listenForApi(server: HttpServer, places: ApiPlaces): Promise<ApiListeners> {
  const open = new Set<Socket>()
  const listeners: Server[] = []
  const tls = places.addresses.every(isLoopback) ? undefined : await startTls(server, places)
  // Its clocks for requests that are late run from then on, and it listens nowhere by itself.
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
    // What is in the midst of its handshake cannot be told that there is no room.
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

/** Answers, reads on so that the answer is not lost by a reset, and closes whatever the client does. */
function refusePlain(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), SILENCE_MS)
  socket.once('close', () => clearTimeout(timer))
  socket.once('end', () => socket.destroy())
  socket.resume().end(PLAIN_REFUSED)
}

/** Terminates TLS for an HTTP server. A client that speaks plainly is told so. */
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
    // The HTTP server limits those that are through; beside them as many may be in the midst of their handshakes.
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
