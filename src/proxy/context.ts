import type { Logger } from 'pino'
import { Registry } from 'prom-client'
import type { Catalog } from '../catalog/catalog.ts'
import { startRefusalWriter } from '../catalog/refusal_writer.ts'
import { createProxyMetrics } from '../observe/proxy_metrics.ts'
import { type ClientAddresses, createClientAddresses, type Forwarders } from './accept/client_addresses.ts'
import { createLimits, type LimitSettings } from './accept/limits.ts'
import { createFindAdmission, type ReadVerifier } from './auth/admission.ts'
import { createAttempts } from './auth/attempts.ts'
import type { LoginContext } from './auth/client_login.ts'
import { createDerivations } from './auth/derivations.ts'
import { type PasswordlessSettings, startPasswordless } from './auth/passwordless.ts'
import { type RequestStart, startWaker } from './connect/wake.ts'
import { createPools, type Pools } from './pool/pools.ts'
import { startCancelKeys } from './session/cancel.ts'
import { watchDatabaseCommands } from './session/database_command.ts'
import type { DirectContext } from './session/direct_session.ts'
import { startIdleSessions } from './session/idle_sessions.ts'
import { startActivityWriter } from './suspend/activity.ts'
import { startClientCounts } from './suspend/client_counts.ts'
import { startPauses } from './suspend/pauses.ts'
import { createRegistration } from './suspend/registration.ts'
import { createTrafficTable } from './suspend/traffic.ts'
import { REASONS } from './wire/errors.ts'

/** State shared by all connections. */
export interface ConnectionContext extends LoginContext, DirectContext {
  /** The suffix of endpoint host names. */
  readonly domain: string
  readonly clientAddresses: ClientAddresses
  readonly pools: Pools
}

export interface ContextOptions extends PasswordlessSettings {
  readonly catalog: Catalog
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

export interface StartedContext {
  readonly context: ConnectionContext
  /** Writes pending activity, counts and refusals, and unregisters the proxy. */
  stop(): Promise<void>
}

/**
 * Registers the proxy and starts the state that its connections share. Errors: catalog away (UNAVAILABLE).
 * @param countConnections returns the number of open connections, for the metrics
 */
export async function startContext(options: ContextOptions, countConnections: () => number): Promise<StartedContext> {
  const { catalog, log, domain, wakeTimeoutMs, mockSaltKey, registry = new Registry() } = options
  const table = createTrafficTable(watchDatabaseCommands((endpointId) => idleSessions.close(endpointId)))
  const activity = startActivityWriter(catalog, table, log, (counts) => metrics.passed(counts))
  const registration = createRegistration(catalog, log)
  const clientCounts = startClientCounts(catalog, table, () => registration.number(), log)
  const pauses = await startPauses({
    catalog,
    table,
    proxyNumber: () => registration.number(),
    writeActivity: () => activity.write(),
    log,
  })
  await registration.start(() => void pauses.renew())
  await pauses.renew()

  const sessions: ConnectionContext['sessions'] = new Set()
  const metrics = createProxyMetrics(registry, REASONS, {
    connections: countConnections,
    sessions: () => sessions.size,
    paused: () => table.paused().reduce((sum, traffic) => sum + traffic.sessions.size, 0),
  })
  const waker = await startWaker({
    catalog,
    requestStart: options.requestStart,
    wakeTimeoutMs,
    onWoken: metrics.woke,
    onOpened: metrics.handedOver,
  })
  const refusals = startRefusalWriter(catalog, (error) =>
    log.debug({ err: error }, 'could not record refused logins; they are recorded later'),
  )
  const pools = createPools({ waker, pauses, table, wakeTimeoutMs, size: options.poolSize })
  const idleSessions = await startIdleSessions(catalog, (endpointId) => pools.closeIdle(endpointId), log)
  const cancelKeys = await startCancelKeys(catalog, mockSaltKey, log)
  const passwordless = await startPasswordless(catalog, options, log)

  return {
    context: {
      domain,
      wakeTimeoutMs,
      table,
      waker,
      attempts: createAttempts(),
      derivations: createDerivations(),
      passwordless,
      refusals,
      limits: createLimits(options.limits),
      clientAddresses: createClientAddresses(options.forwarders ?? { proxyProtocol: [], forwardedFor: [] }),
      pools,
      findAdmission: createFindAdmission(catalog, waker, options.readVerifier, wakeTimeoutMs, mockSaltKey),
      pauses,
      cancelKeys,
      sessions,
      metrics,
      log,
    },
    async stop() {
      clientCounts.stop()
      pauses.stop()
      pools.stop()
      idleSessions.stop()
      waker.stop()
      cancelKeys.stop()
      passwordless.stop()
      await activity.stop()
      await refusals.stop()
      await registration.stop()
    },
  }
}
