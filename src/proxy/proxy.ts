import type { Socket } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import type { Logger } from 'pino'
import { Registry } from 'prom-client'
import type { Catalog } from '../catalog/catalog.ts'
import { startRefusalWriter } from '../catalog/refusal_writer.ts'
import type { ListenAddress } from '../network.ts'
import { openFilesLimit } from '../observe/open_files.ts'
import { createProxyMetrics } from '../observe/proxy_metrics.ts'
import { type CurrentCertificate, followCertificate, readCertificate } from '../tls/follow.ts'
import { startActivityWriter } from './suspend/activity.ts'
import { createFindAdmission, type ReadVerifier } from './auth/admission.ts'
import { createAttempts } from './auth/attempts.ts'
import { startCancelKeys } from './session/cancel.ts'
import { tlsClient } from './accept/client.ts'
import { closeGently, refuse } from './wire/close.ts'
import { serve } from './connection.ts'
import type { ConnectionContext } from './context.ts'
import { asProxyError } from './wire/report.ts'
import { createDerivations } from './auth/derivations.ts'
import { emptied } from './suspend/emptied.ts'
import { ClientGone, ProxyError, REASONS } from './wire/errors.ts'
import { startHolds } from './suspend/holds.ts'
import { watchDatabaseCommands } from './session/database_command.ts'
import { startIdleSessions } from './session/idle_sessions.ts'
import { createSqlServer } from './sql_http/server.ts'
import { createLimits, type LimitSettings } from './accept/limits.ts'
import { listenAt, type SharedListeners } from './accept/listening.ts'
import { ALPN, ALPN_HTTP, readOpening, STAGE_MS } from './accept/opening.ts'
import { createOrigins, type Forwarders } from './accept/origins.ts'
import { createPools } from './pool/pools.ts'
import { createRegistration } from './suspend/registration.ts'
import { createTrafficTable } from './suspend/traffic.ts'
import { type RequestStart, startWaker } from './connect/wake.ts'

/** Time for clients to close after the proxy has ended their connections. */
const GOODBYE_MS = 500

/** Descriptors for the catalog, listeners and logs. */
const OTHER_FILES = 64

export interface ProxyOptions {
  readonly catalog: Catalog
  readonly places: readonly ListenAddress[]
  /** Bound sockets of `places` that other processes accept on too. */
  readonly shared?: SharedListeners
  readonly certificate: CurrentCertificate
  /** The suffix of endpoint host names. */
  readonly domain: string
  /** Time limit of a client's wait for its endpoint. */
  readonly wakeTimeoutMs: number
  /** Maximum number of sessions of a pool. */
  readonly poolSize: number
  readonly requestStart: RequestStart
  readonly readVerifier: ReadVerifier
  /** Key of mock salts and of the names that proxies exchange for cancel keys. The same in all proxies. */
  readonly mockSaltKey: Buffer
  /** No limits when undefined. */
  readonly limits?: LimitSettings
  /** No forwarders when undefined. */
  readonly forwarders?: Forwarders
  readonly log: Logger
  /** The registry of the metrics. */
  readonly registry?: Registry
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
  const { catalog, log, wakeTimeoutMs, registry = new Registry() } = options
  const certificate = await readCertificate(options.certificate)
  const table = createTrafficTable(watchDatabaseCommands((endpointId) => idleSessions.close(endpointId)))
  const activity = startActivityWriter(catalog, table, log, (counts) => metrics.passed(counts))
  const registration = createRegistration(catalog, log)
  const holds = await startHolds({
    catalog,
    table,
    proxyNumber: () => registration.number(),
    writeActivity: () => activity.write(),
    log,
  })
  await registration.start(() => void holds.renew())
  await holds.renew()

  const clients = new Set<Socket>()
  const sessions: ConnectionContext['sessions'] = new Set()
  const metrics = createProxyMetrics(registry, REASONS, {
    connections: () => clients.size,
    sessions: () => sessions.size,
    held: () => table.held().reduce((sum, traffic) => sum + traffic.sessions.size, 0),
  })
  const waker = await startWaker({
    catalog,
    requestStart: options.requestStart,
    wakeTimeoutMs,
    onWoken: metrics.woke,
  })
  const refusals = startRefusalWriter(catalog, (error) =>
    log.debug({ err: error }, 'could not record refused logins; they are recorded later'),
  )
  const limits = createLimits(options.limits)
  const origins = createOrigins(options.forwarders ?? { proxyProtocol: [], forwardedFor: [] })
  const pools = createPools({ waker, holds, table, wakeTimeoutMs, size: options.poolSize })
  const idleSessions = await startIdleSessions(catalog, (endpointId) => pools.closeIdle(endpointId), log)
  const context: ConnectionContext = {
    domain: options.domain,
    wakeTimeoutMs,
    table,
    waker,
    attempts: createAttempts(),
    derivations: createDerivations(),
    refusals,
    limits,
    origins,
    pools,
    findAdmission: createFindAdmission(catalog, waker, options.readVerifier, wakeTimeoutMs, options.mockSaltKey),
    holds,
    cancelKeys: await startCancelKeys(catalog, options.mockSaltKey, log),
    sessions,
    metrics,
    log,
  }

  const sql = createSqlServer({ ...context, serve: (client) => serve(context, client) })
  function tlsServer(protocols: string[], served: (socket: TLSSocket) => void) {
    const tls = createTlsServer({ ...certificate, ALPNProtocols: protocols, handshakeTimeout: STAGE_MS })
    tls.on('tlsClientError', (_error, socket) => socket.destroy())
    return tls.on('secureConnection', (socket) => {
      socket.on('error', () => {})
      served(socket)
    })
  }
  function servePostgres(socket: TLSSocket): void {
    const client = tlsClient(socket, origins.of(socket))
    void serve(context, { ...client, onLoggedIn: () => limits.loggedIn(socket, client.address) })
  }
  const tls = tlsServer([ALPN], servePostgres)
  const refusingTls = tlsServer([ALPN], (socket) => refuse(socket, asProxyError(new ProxyError('early_data'), context)))
  const directTls = tlsServer([ALPN, ALPN_HTTP], (socket) => {
    if (socket.alpnProtocol === ALPN) servePostgres(socket)
    else sql.accept(socket)
  })

  const servers = { tls, 'direct tls': directTls, 'tls after plaintext': refusingTls }

  async function accept(socket: Socket): Promise<void> {
    try {
      await origins.read(socket, STAGE_MS)
      const address = origins.of(socket)
      limits.accept(socket, address)
      const opening = await readOpening(socket)
      if (opening.wants === 'cancel') context.cancelKeys.pass({ stream: socket, address }, opening.packet)
      else servers[opening.wants].emit('connection', socket)
    } catch (error) {
      if (error instanceof ClientGone) closeGently(socket)
      else refuse(socket, asProxyError(error, context))
    }
  }

  function take(socket: Socket): void {
    metrics.opened()
    clients.add(socket)
    socket.once('close', () => clients.delete(socket))
    socket.on('error', () => {})
    void accept(socket)
  }

  const mostFiles = openFilesLimit() - OTHER_FILES
  const unfollow = followCertificate(Object.values(servers), options.certificate, certificate, log)

  async function leave(): Promise<void> {
    unfollow()
    sql.stop()
    holds.stop()
    pools.stop()
    idleSessions.stop()
    context.waker.stop()
    context.cancelKeys.stop()
    await activity.stop()
    await refusals.stop()
    await registration.stop()
  }

  const listening = await listenAt(options.places, options.shared, {
    log,
    room: () => mostFiles - clients.size - sessions.size,
    onClient: take,
  }).catch(async (error: unknown) => {
    await leave()
    throw error
  })

  async function stop(): Promise<void> {
    listening.close()
    sql.stop()
    for (const session of sessions) session.end(new ProxyError('stopping'))
    await emptied(clients, GOODBYE_MS)
    for (const socket of clients) socket.destroy()
    await leave()
  }

  let stopped: Promise<void> | undefined
  return {
    port: listening.port,
    async drain(ms) {
      listening.close()
      sql.stop()
      await emptied(clients, ms)
    },
    stop: () => (stopped ??= stop()),
  }
}
