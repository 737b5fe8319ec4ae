/*
 * One client's connection, stage after stage:
 *
 *   startup packet ─▶ route ─▶ log in ─▶ reach (look up, wait, wake, connect) ─▶ splice
 *
 * Nothing is woken for a client before it has shown that it knows the password, but where only the compute knows what that is.
 */
import type { Duplex } from 'node:stream'
import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { ProxyMetrics } from '../observe/proxy_metrics.ts'
import { openFilesLimit, RESERVED_FILES } from '../observe/open_files.ts'
import type { FindAdmission } from './admission.ts'
import { openAhead } from './ahead.ts'
import { isAllowed } from './allowed.ts'
import type { Attempts } from './attempts.ts'
import { cancelAtCompute, type CancelKeys } from './cancel.ts'
import type { Client } from './client.ts'
import { closeGently, refuse } from './close.ts'
import { ClientGone, ProxyError } from './errors.ts'
import type { Holds } from './holds.ts'
import type { Limits } from './limits.ts'
import { askForPassword, authenticate, checkPassword, splitPassword } from './login.ts'
import { encodeNegotiation } from './messages.ts'
import { readFirstPacket } from './opening.ts'
import { type Admitted, reachCompute } from './reach.ts'
import { type Route, route } from './route.ts'
import type { Login } from '../catalog/login.ts'
import type { Pools } from './pool/pools.ts'
import { pooledSession } from './pool/session.ts'
import { encodeWelcome, settingsOf } from './pool/welcome.ts'
import { spliceSession, type SplicedSession } from './splice.ts'
import {
  CANCEL_REQUEST,
  encodeStartup,
  isProtocolOption,
  packetCode,
  parseStartup,
  PROTOCOL_3_0,
  type Startup,
} from './startup.ts'
import type { TrafficTable } from './traffic.ts'
import type { Waker } from './wake.ts'

/** What connections share. */
export interface ConnectionContext {
  readonly domain: string
  readonly wakeTimeoutMs: number
  readonly table: TrafficTable
  readonly waker: Waker
  readonly findAdmission: FindAdmission
  readonly attempts: Attempts
  readonly limits: Limits
  readonly holds: Holds
  readonly cancelKeys: CancelKeys
  /** The sessions that are under way, to be ended when the proxy stops. */
  readonly sessions: Set<Pick<SplicedSession, 'end'>>
  readonly pools: Pools
  readonly metrics: ProxyMetrics
  readonly log: Logger
}

/** A session has two descriptors: the client's and the compute's. */
const MOST_SESSIONS = Math.max(1, Math.floor((openFilesLimit() - RESERVED_FILES) / 2))

/** Serves a client from its startup packet on. Never rejects: what goes wrong is told to the client or logged. */
export async function serve(context: ConnectionContext, client: Client): Promise<void> {
  const { stream } = client
  try {
    const packet = await readFirstPacket(stream)
    if (packetCode(packet) === CANCEL_REQUEST) return context.cancelKeys.pass(client, packet)
    const startup = parseStartup(packet)
    negotiate(stream, startup)
    const routed = route(startup, client.serverName, context.domain)
    const loggedIn = await logIn(context, client, routed)
    const join = routed.pooled || loggedIn.target.pooler_enabled ? joinPool : joinCompute
    await join(context, stream, routed.startup, loggedIn)
  } catch (error) {
    if (error instanceof ClientGone) closeGently(stream)
    else refuse(stream, asProxyError(error, context))
  }
}

/** Tells a client that would speak a newer protocol, or with options, that this is 3.0 (Postgres manual, "Start-up"). */
function negotiate(client: Duplex, { version, parameters }: Startup): void {
  const options = [...parameters.keys()].filter(isProtocolOption)
  if (version !== PROTOCOL_3_0 || options.length > 0) client.write(encodeNegotiation(options))
}

interface LoggedIn extends Admitted {
  readonly endpointId: string
  readonly target: Login
  /** The addresses that may connect to the endpoint; none for all. */
  readonly allowed: readonly string[]
}

/**
 * Has the client show that it knows the password of its role. What else stands against it is said only then: to anybody else it would
 * tell that there is such an endpoint. Errors: no_user, wrong_password, address, disabled_endpoint and what looking for it brings.
 */
async function logIn(
  { findAdmission, attempts, limits }: ConnectionContext,
  client: Client,
  routed: Route,
): Promise<LoggedIn> {
  const user = Buffer.from(routed.startup.parameters.get('user') ?? '', 'latin1').toString()
  if (user === '') throw new ProxyError('no_user')
  const { stream, address, shows } = client
  const asked = routed.endpointId === undefined || shows === 'password'
  const given = asked ? await askForPassword(stream) : undefined
  const { endpointId, password } =
    routed.endpointId === undefined ? splitPassword(given ?? '') : { endpointId: routed.endpointId, password: given }
  const whose = [address, endpointId, user] as const
  limits.attempt(stream, address, endpointId)
  await attempts.admit(...whose)
  const admission = findAdmission(endpointId, user).then(({ verifier, login }) => {
    const allowed = login?.allowed_ips ?? []
    const mayEnter = login && !routed.pooled && !login.pooler_enabled && !login.disabled && isAllowed(address, allowed)
    return { verifier, login, allowed, ahead: mayEnter ? openAhead(login, stream) : undefined }
  })
  const found = admission.then(({ verifier }) => verifier)
  const shown =
    password === undefined ? authenticate(client, user, found) : checkPassword(stream, user, password, await found)
  const keys = await shown.catch((error: unknown) => {
    if (error instanceof ProxyError && error.reason === 'wrong_password') attempts.failed(...whose)
    throw error
  })
  const { login, allowed, ahead } = await admission
  if (!login) throw new ProxyError('unknown_endpoint')
  if (!isAllowed(address, allowed)) throw notAllowed(address)
  if (login.disabled) throw new ProxyError('disabled_endpoint')
  limits.admit(stream, endpointId)
  return { endpointId, keys, target: login, allowed, ahead }
}

const notAllowed = (address: string | undefined): ProxyError =>
  new ProxyError('address', {
    text: `This IP address ${address} is not allowed to connect to this endpoint. Please add it to the project's allowed_ips. Make sure to check for IPv4 or IPv6 addresses.`,
  })

/** Joins the client to a session of its own at the compute; returns once bytes pass. */
async function joinCompute(
  context: ConnectionContext,
  client: Duplex,
  startup: Startup,
  { endpointId, allowed, ...admitted }: LoggedIn,
): Promise<void> {
  const { table, sessions, holds, cancelKeys, metrics, log } = context
  if (client.destroyed) throw new ClientGone('closed right after its startup packet')
  if (sessions.size >= MOST_SESSIONS) throw new ProxyError('crowded')
  const traffic = table.enter(endpointId)
  const session = spliceSession(client, traffic)
  sessions.add(session)
  client.once('close', () => {
    sessions.delete(session)
    table.leave(traffic)
  })
  const reaching = new AbortController()
  const gone = (): void => reaching.abort(new ClientGone('closed before it was connected'))
  const timer = setTimeout(() => reaching.abort(new ProxyError('not_in_time')), context.wakeTimeoutMs)
  client.once('end', gone).once('close', gone)
  try {
    const began = performance.now()
    let hadToWake = false
    const waker: Waker = {
      ...context.waker,
      wake(...which) {
        hadToWake = true
        return context.waker.wake(...which)
      },
    }
    const reached = await reachCompute(waker, holds, traffic, encodeStartup(startup), admitted, reaching.signal)
    const { key, address } = reached
    const cancel = async (): Promise<void> => {
      if (key) await cancelAtCompute(address, key)
    }
    if (key) {
      const admits = (from: string | undefined): boolean => isAllowed(from, allowed)
      client.once('close', cancelKeys.remember(key, { cancel, admits }))
    }
    session.attach(reached.socket, reached.first, reached.computePid, () => void cancel())
    const ms = performance.now() - began
    if (hadToWake) metrics.handedOver(ms / 1000)
    log.debug({ endpoint: endpointId, ms }, 'connected')
  } finally {
    clearTimeout(timer)
    client.off('end', gone).off('close', gone)
  }
}

/** Joins the client to those that share sessions. Errors: unpoolable, and what opening the first session brings. */
async function joinPool(
  context: ConnectionContext,
  client: Duplex,
  { parameters }: Startup,
  { endpointId, allowed, ...admitted }: LoggedIn,
): Promise<void> {
  const { sessions, pools, cancelKeys } = context
  if (client.destroyed) throw new ClientGone('closed right after its startup packet')
  const user = parameters.get('user') ?? ''
  const pool = pools.enter({ endpointId, user, database: parameters.get('database') ?? user }, admitted)
  client.once('close', pool.join())
  if (sessions.size >= MOST_SESSIONS) throw new ProxyError('crowded')
  const { all, tracked } = await settingsOf(pool, client, parameters)
  if (client.destroyed) throw new ClientGone('closed while it was let in')
  const key = randomBytes(8)
  client.write(encodeWelcome(all, key))
  const session = pooledSession(client, pool, tracked, (error) => asProxyError(error, context))
  sessions.add(session)
  const forget = cancelKeys.remember(key, {
    cancel: () => session.cancel(),
    admits: (from) => isAllowed(from, allowed),
  })
  client.once('close', () => {
    sessions.delete(session)
    forget()
  })
}

/** What the client is told, counted; what is not meant for it, or is the operator's to mend, goes to the log. */
export function asProxyError(error: unknown, { metrics, log }: Pick<ConnectionContext, 'metrics' | 'log'>): ProxyError {
  metrics.refused(error instanceof ProxyError ? error.reason : 'internal')
  if (!(error instanceof ProxyError)) {
    log.error({ err: error }, 'a connection failed')
    return new ProxyError('internal', { cause: error })
  }
  if (
    error.reason === 'start_failed' ||
    error.reason === 'not_in_time' ||
    error.reason === 'catalog_away' ||
    error.reason === 'crowded'
  ) {
    log.warn({ reason: error.reason, detail: error.detail, err: error.cause }, 'an endpoint could not be reached')
  }
  return error
}
