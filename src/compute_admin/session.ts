import pg from 'pg'
import type { ComputeAddress } from '../compute/compute.ts'
import { ADMIN, endSession, guardLogin, ownSession } from '../postgres/own_session.ts'
import type { StoreSecrets } from '../secrets/stores.ts'

/** application_name of sessions that keep a compute awake: while a running branch is cloned, or a schema is dumped. */
export const BRANCHING = 'neap: branch'

export interface AdminSession {
  query<R extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<R[]>
  /** Runs `work` in a second session of the same kind, possibly in another database. */
  beside<T>(database: string, work: (session: AdminSession) => Promise<T>): Promise<T>
}

/** A session of a role other than Neap's own. */
export interface RoleSession {
  query(text: string): Promise<unknown>
}

/** Settings on which the masking of data relies. */
const ROLE_SETTINGS = {
  role: 'none',
  local_preload_libraries: '',
  default_transaction_read_only: 'off',
  statement_timeout: '0',
  row_security: 'off',
}

/** Runs `work` in a session of a role, whose password Neap has made. Its statements take as long as they take. */
export async function withRoleSession<T>(
  { host, port }: ComputeAddress,
  options: { readonly user: string; readonly password: string; readonly database: string; readonly purpose: string },
  work: (session: RoleSession) => Promise<T>,
): Promise<T> {
  const { purpose, ...login } = options
  const settings = Object.entries(ROLE_SETTINGS).map(([name, value]) => `-c ${name}=${value}`)
  const client = new pg.Client({
    ...login,
    host,
    port,
    application_name: `neap: ${purpose}`,
    options: settings.join(' '),
  })
  guardLogin(client)
  await client.connect()
  try {
    return await work({ query: (text) => client.query(text) })
  } finally {
    await endSession(client)
  }
}

/** Quotes an identifier, and a literal, by the driver's own functions. */
export const identifier = pg.escapeIdentifier
export const literal = pg.escapeLiteral

/** Time-out in milliseconds of a session whose result Neap can do without. */
export const LOOK_TIMEOUT_MS = 1_500

/** Runs `work` in a superuser session at a compute. Connecting and each statement have at most `timeoutMs` each. */
export async function withAdminSession<T>(
  address: ComputeAddress,
  secrets: Pick<StoreSecrets, 'admin'>,
  options: { database?: string; purpose: string; timeoutMs?: number },
  work: (session: AdminSession) => Promise<T>,
): Promise<T> {
  const { timeoutMs = 4_000, database } = options
  const client = await ownSession({
    host: address.host,
    port: address.port,
    user: ADMIN,
    passwords: secrets.admin(address.store),
    ...(database !== undefined && { database }),
    name: `neap: ${options.purpose}`,
    timeoutMs,
  })
  try {
    return await work({
      query: async <R extends pg.QueryResultRow>(text: string, values?: unknown[]) =>
        (await client.query<R>(text, values)).rows,
      beside: (other, there) => withAdminSession(address, secrets, { ...options, database: other }, there),
    })
  } finally {
    await endSession(client)
  }
}
