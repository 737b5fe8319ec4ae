import type { Duplex } from 'node:stream'
import pg from 'pg'
import type { Config } from '../../config.ts'
import { AppError, messageOf } from '../../errors.ts'
import { isLoopback, isWildcard } from '../../network.ts'
import { guardLogin, takeSocket } from '../../postgres/own_session.ts'
import { publicHost } from '../../public_address.ts'
import { clientMessage } from './messages.ts'

/** Time beyond that of a wake in which the proxy says why it could not log in. */
const PATIENCE_MS = 5_000
const MAX_TEXT = 2_000

export interface Login {
  readonly endpointId: string
  readonly role: string
  readonly password: string
  readonly database: string
  /** Transactions begin read-only; a statement of the text can end that. */
  readonly readOnly: boolean
}

/**
 * Logs in as a role as a client does, through the proxy, and returns the session's socket. The proxy proves that it can
 * reach a server with the role's verifier, by SCRAM bound to its certificate: another program on its port learns
 * nothing.
 * Errors: NOT_FOUND (the database), NOT_ALLOWED (the login is refused), UNAVAILABLE.
 */
export async function openSession(config: Config, login: Login, signal: AbortSignal): Promise<Duplex> {
  const { endpointId, role, password, database, readOnly } = login
  const client = new pg.Client({
    ...proxyPlace(config),
    user: role,
    password,
    database,
    application_name: 'Neap SQL',
    ssl: { rejectUnauthorized: false },
    enableChannelBinding: true,
    connectionTimeoutMillis: config.wakeTimeout * 1000 + PATIENCE_MS,
    options: `endpoint=${endpointId}${readOnly ? ' -c default_transaction_read_only=on' : ''}`,
  })
  guardLogin(client)
  const leave = () => void client.end().catch(() => undefined)
  signal.addEventListener('abort', leave, { once: true })
  try {
    await client.connect()
    signal.throwIfAborted()
    return takeSocket(client)
  } catch (error) {
    leave()
    throw refusalOf(error, database)
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** The proxy on this machine, where it listens here; else as clients reach it. */
function proxyPlace(config: Config): { host: string; port: number } {
  const { listen, proxyPort: port } = config
  const loopback = listen.find(isLoopback) ?? (listen.some(isWildcard) ? '127.0.0.1' : undefined)
  return { host: loopback ?? publicHost(config), port }
}

function refusalOf(error: unknown, database: string): AppError {
  const code = (error as { code?: unknown }).code
  const sqlState = typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : ''
  const text = messageOf(error).slice(0, MAX_TEXT)
  if (sqlState === '3D000') return new AppError('NOT_FOUND', `database ${database} not found`)
  if (sqlState === '' || /^(08|53|57|58|XX)/.test(sqlState)) {
    const why = sqlState === '' ? 'The proxy does not answer. Try again.' : `The compute cannot be reached: ${text}`
    return new AppError('UNAVAILABLE', why, { cause: error })
  }
  return new AppError('NOT_ALLOWED', `The login is refused: ${text}`)
}

/** Ends a session after its last answer. */
export function endSession(socket: Duplex): void {
  socket.end(clientMessage('X', ''))
}
