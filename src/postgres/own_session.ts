import type { EventEmitter } from 'node:events'
import type { Duplex } from 'node:stream'
import pg from 'pg'
import { withTimeout } from '../race.ts'

/** Neap's own superuser in every compute, and its own database there. Users have access to neither. */
export const ADMIN = 'neap_admin'
export const ADMIN_DATABASE = 'neap'
/** Neap's own role that proxies log in as, to read the verifiers of users' roles. */
export const LOGIN_READER = 'neap_login_reader'

/** Both, as a list in SQL. */
export const OWN_ROLES = `('${ADMIN}', '${LOGIN_READER}')`

/**
 * Limit on the bytes that a compute sends until it is ready for the next query. The largest answers are a thousand
 * names with verifiers of 1 KiB.
 */
const MAX_ANSWER_BYTES = 4 * 2 ** 20

/**
 * Limit on SCRAM iterations: those of the verifiers that Neap gives its own roles. In stores from before each had its
 * own verifiers, they have fewer.
 */
const MAX_ITERATIONS = 4096

/**
 * Settings that Neap's own sessions rely on: the settings of an endpoint or its databases must not change them. The
 * startup options of a session override all of those (Postgres manual, "Parameter Interaction via the Configuration
 * File").
 */
const PINNED = {
  role: 'none',
  local_preload_libraries: '',
  search_path: 'pg_catalog',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  idle_session_timeout: '0',
  default_transaction_isolation: 'read\\ committed',
  default_transaction_read_only: 'off',
  default_transaction_deferrable: 'off',
  default_tablespace: '',
  default_table_access_method: 'heap',
  synchronous_commit: 'local',
  datestyle: 'ISO',
  intervalstyle: 'postgres',
  timezone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  quote_all_identifiers: 'off',
  transform_null_equals: 'off',
  array_nulls: 'on',
  row_security: 'on',
  client_min_messages: 'warning',
  jit: 'off',
  work_mem: '4MB',
  statement_timeout: '0',
}

/** Settings that only a superuser may set. Its statements may hold a verifier, which must not be logged. */
const PINNED_FOR_ADMIN = {
  log_min_duration_statement: '-1',
  log_min_duration_sample: '-1',
  log_statement: 'none',
  log_duration: 'off',
  session_replication_role: 'origin',
  // Its texts would be shown to roles that read statistics.
  'pg_stat_statements.track': 'none',
}

export interface OwnSessionOptions {
  readonly host: string
  readonly port: number
  readonly user: typeof ADMIN | typeof LOGIN_READER
  /** The passwords that the role may have: more than one only while passwords are being changed. */
  readonly passwords: readonly string[]
  readonly database?: string
  /** The purpose of the session, as its application_name. */
  readonly name: string
  /** Limit in milliseconds for connecting, and for each statement; unlimited when left out. */
  readonly timeoutMs?: number
}

const WRONG_PASSWORD = '28P01'

/**
 * Opens one of Neap's own sessions at a compute. It logs in by SCRAM only, and only at a server whose signature proves
 * that it holds the password's verifier (RFC 5802, section 3): code in a compute that took over its socket learns no
 * secret that it could use elsewhere.
 */
export async function ownSession(options: OwnSessionOptions): Promise<pg.Client> {
  const { passwords } = options
  // The first is the one that the password changes to, perhaps since it was tried.
  const tries = passwords.length > 1 ? [...passwords, ...passwords.slice(0, 1)] : passwords
  for (const [index, password] of tries.entries()) {
    const client = ownClient(options, password)
    requireScram(client)
    try {
      await client.connect()
      return client
    } catch (error) {
      const isLast = index === tries.length - 1
      if (isLast || (error as { code?: unknown }).code !== WRONG_PASSWORD) throw error
    }
  }
  throw new Error(`there is no password for ${options.user}`)
}

/** As `ownSession`, at a server that was started for this alone and asks for no proof. */
export async function unprovenSession(options: Omit<OwnSessionOptions, 'passwords'>): Promise<pg.Client> {
  const client = ownClient(options, undefined)
  await client.connect()
  return client
}

function ownClient(options: Omit<OwnSessionOptions, 'passwords'>, password: string | undefined): pg.Client {
  const { timeoutMs } = options
  const settings = {
    ...PINNED,
    ...(options.user === ADMIN && PINNED_FOR_ADMIN),
    ...(timeoutMs && { statement_timeout: String(timeoutMs) }),
  }
  const client = new pg.Client({
    host: options.host,
    port: options.port,
    user: options.user,
    password,
    database: options.database ?? ADMIN_DATABASE,
    application_name: options.name,
    // The server ends slow statements; a frozen server cannot.
    ...(timeoutMs && { connectionTimeoutMillis: timeoutMs, query_timeout: timeoutMs + 1_000 }),
    options: Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(' '),
  })
  // A session that is lost while idle fails at its next query.
  client.on('error', () => undefined)
  limitAnswers(client)
  return client
}

/** A frozen server does not respond to the end of a session, nor does code in a compute that has taken it over. */
const END_MS = 1_000

/** Ends a session, or cuts it off where the server does not close it. */
export async function endSession(client: pg.Client): Promise<void> {
  await withTimeout(client.end(), END_MS, undefined).catch(() => undefined)
  connectionOf(client).stream.destroy()
}

/** The events of the driver's connection, before the driver acts on them. */
interface Connection extends EventEmitter {
  readonly stream: EventEmitter & { destroy(error?: Error): void }
}

const connectionOf = (client: pg.Client): Connection => (client as unknown as { connection: Connection }).connection

/**
 * Guards the login of any session that uses a password of Neap's own making: SCRAM only, with the server's signature
 * checked, and no answer over the limit. Call before `connect`.
 */
export function guardLogin(client: pg.Client): void {
  client.on('error', () => undefined)
  requireScram(client)
  limitAnswers(client)
}

/** The socket of a client that has logged in, without a reader. */
export function takeSocket(client: pg.Client): Duplex {
  const { stream } = connectionOf(client)
  stream.removeAllListeners('data')
  return (stream as unknown as Duplex).pause()
}

/** Ends a session with an answer over the limit: the driver would buffer all that a compromised compute sends. */
function limitAnswers(client: pg.Client): void {
  const connection = connectionOf(client)
  let received = 0
  connection.stream.on('data', (chunk: Buffer) => {
    received += chunk.length
    if (received > MAX_ANSWER_BYTES)
      connection.stream.destroy(new Error(`The compute answers with over ${MAX_ANSWER_BYTES / 2 ** 20} MiB.`))
  })
  connection.on('readyForQuery', () => (received = 0))
}

function requireScram(client: pg.Client): void {
  const connection = connectionOf(client)
  function refuse(why: string): void {
    connection.stream.destroy(new Error(`The server ${why}: it is not the compute.`))
    // ReadyForQuery may have arrived with the same bytes.
    connection.removeAllListeners('readyForQuery')
  }
  let isProven = false
  for (const asked of ['authenticationCleartextPassword', 'authenticationMD5Password'])
    connection.once(asked, () => refuse('asks for another proof than SCRAM'))
  connection.once('authenticationSASLContinue', (message: { data: string }) => {
    if (Number(/,i=(\d+)$/.exec(message.data)?.[1]) <= MAX_ITERATIONS) return
    // Otherwise the driver would derive a key with as many iterations as the server demands.
    message.data = ''
    refuse('asks for too many iterations')
  })
  // The driver checks the signature in it, and fails when it is wrong.
  connection.once('authenticationSASLFinal', () => (isProven = true))
  connection.once('authenticationOk', () => {
    if (!isProven) refuse('asks for no proof')
  })
}
