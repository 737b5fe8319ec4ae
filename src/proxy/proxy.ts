import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { ListenAddress } from '../network.ts'
import { openFilesLimit } from '../observe/open_files.ts'
import { type CurrentCertificate, followCertificate, readCertificate } from '../tls/follow.ts'
import { tlsClient } from './accept/client.ts'
import { createEntrance } from './accept/entrance.ts'
import { listenAt, type SharedListeners } from './accept/listener.ts'
import { serve } from './connection.ts'
import { type ContextOptions, startContext } from './context.ts'
import { createSqlServer } from './sql_http/server.ts'
import { drained } from './suspend/drain.ts'
import { ProxyError } from './wire/errors.ts'

/** Time for clients to close after the proxy has ended their connections. */
const CLOSE_GRACE_MS = 500

/** Descriptors for the catalog, listeners and logs. */
const OTHER_FILES = 64

export interface ProxyOptions extends ContextOptions {
  readonly places: readonly ListenAddress[]
  /** Bound sockets of `places` that other processes accept on too. */
  readonly shared?: SharedListeners
  readonly certificate: CurrentCertificate
}

export interface Proxy {
  readonly port: number
  /**
   * Stops accepting. Resolves when all connections have closed, or after `ms` milliseconds. Until `stop`, the proxy
   * stays registered and acknowledges pauses.
   */
  drain(ms: number): Promise<void>
  /** Stops accepting, ends all connections, and unregisters. */
  stop(): Promise<void>
}

/** Starts a proxy. Errors: certificate files unreadable, catalog away (UNAVAILABLE), port taken (EADDRINUSE). */
export async function startProxy(options: ProxyOptions): Promise<Proxy> {
  const { log } = options
  const certificate = await readCertificate(options.certificate)
  const clients = new Set<Socket>()
  const started = await startContext(options, () => clients.size)
  const { context } = started
  const { clientAddresses, limits, cancelKeys, sessions, metrics } = context
  const sqlServer = createSqlServer({ ...context, serve: (client) => serve(context, client) })
  const entrance = createEntrance({
    certificate,
    clientAddresses,
    limits,
    metrics,
    log,
    servePostgres(socket: TLSSocket) {
      const client = tlsClient(socket, clientAddresses.of(socket))
      const countOut = (): void => limits.loggedIn(socket, client.address)
      void serve(context, { ...client, onWaiting: countOut, onLoggedIn: countOut })
    },
    serveHttp: (socket) => sqlServer.accept(socket),
    cancel: (client, packet) => cancelKeys.pass(client, packet),
  })
  const unfollow = followCertificate(entrance.tlsServers, options.certificate, certificate, log)

  function onClient(socket: Socket): void {
    metrics.opened()
    clients.add(socket)
    socket.once('close', () => clients.delete(socket))
    socket.on('error', () => {})
    void entrance.accept(socket)
  }

  async function leave(): Promise<void> {
    unfollow()
    sqlServer.stop()
    await started.stop()
  }

  const maxFiles = openFilesLimit() - OTHER_FILES
  const listening = await listenAt(options.places, options.shared, {
    log,
    freeConnections: () => maxFiles - clients.size - sessions.size,
    onClient,
  }).catch(async (error: unknown) => {
    await leave()
    throw error
  })

  async function stop(): Promise<void> {
    listening.close()
    sqlServer.stop()
    context.passwordless.stop()
    for (const session of sessions) session.end(new ProxyError('stopping'))
    await drained(clients, CLOSE_GRACE_MS)
    for (const socket of clients) socket.destroy()
    await leave()
  }

  let stopped: Promise<void> | undefined
  return {
    port: listening.port,
    async drain(ms) {
      listening.close()
      sqlServer.stop()
      await drained(clients, ms)
    },
    stop: () => (stopped ??= stop()),
  }
}
