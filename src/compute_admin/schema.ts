import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { ComputeAddress } from '../compute/compute.ts'
import { AppError } from '../errors.ts'
import { ADMIN } from '../postgres/own_session.ts'
import { runBundledPgDump } from './bundled_pg_dump.ts'
import { knownPgDump } from './pg_dump.ts'
import { type ReadPayer, withPlace } from './reading_places.ts'
import { BRANCHING } from './session.ts'

const PATIENCE_MS = 30_000
const LOCK_WAIT_MS = 5_000
const MAX_BYTES = 16 * 2 ** 20
const MAX_COMPLAINT = 2_000
/** Memory limit of pg_dump, which buffers whole answers: those of a hostile compute do not end. */
const MAX_MEMORY_KIB = 512 * 1024
/** Runs a program under that memory limit, where the system supports it (POSIX, `ulimit`). */
const LIMITED = `ulimit -v ${MAX_MEMORY_KIB} 2>/dev/null; exec "$0" "$@"`
/**
 * Returns the schema of a database as SQL: the output of `pg_dump --schema-only`, without the random word that marks
 * its end for psql. Runs the machine's own pg_dump if it is new enough, else the one that npm provides.
 * Errors: NOT_ALLOWED (too slow or too large); UNAVAILABLE (the compute went away, `signal` aborted, or there was no
 * place to read in time).
 */
export async function dumpSchema(address: ComputeAddress, options: DumpOptions): Promise<string> {
  return withPlace(options.payer, options.signal, async () => requireSql(await dump(address, options), options.signal))
}

interface DumpOptions {
  readonly payer: ReadPayer
  readonly password: string
  readonly database: string
  readonly pgVersion: number
  readonly signal: AbortSignal
}

const OPTIONS = ['--schema-only', '--no-password', `--lock-wait-timeout=${LOCK_WAIT_MS}`]

/** The result of a pg_dump: its output, or its error text; neither if it was killed. */
interface Dump {
  readonly sql?: string
  readonly complaint?: string
  readonly isTooLarge?: boolean
}

async function dump(address: ComputeAddress, options: DumpOptions): Promise<Dump> {
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(PATIENCE_MS)])
  const installed = await knownPgDump(options.pgVersion)
  if (installed) return runInstalled(installed.path, address, options, signal)
  const reply = await runBundledPgDump(address, { connection: connectionString(options), options: OPTIONS }, signal)
  if (reply === 'flooded') return { isTooLarge: true }
  const isTooLarge = reply !== undefined && 'sql' in reply && Buffer.byteLength(reply.sql) > MAX_BYTES
  return { ...reply, isTooLarge }
}

/** In the format of libpq (Postgres manual, "Keyword/Value Connection Strings"). */
function connectionString({ password, database }: DumpOptions): string {
  const parameters = {
    user: ADMIN,
    password,
    dbname: database,
    application_name: BRANCHING,
    require_auth: 'scram-sha-256',
    client_encoding: 'UTF8',
    sslmode: 'disable',
  }
  return Object.entries(parameters)
    .map(([name, value]) => `${name}='${value.replaceAll(/[\\']/g, String.raw`\$&`)}'`)
    .join(' ')
}

/** The password goes through the environment: other users can see arguments, but not variables. */
async function runInstalled(
  program: string,
  { host, port }: ComputeAddress,
  { password, database }: DumpOptions,
  signal: AbortSignal,
): Promise<Dump> {
  const child = spawn('/bin/sh', ['-c', LIMITED, program, ...OPTIONS], {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
    env: {
      PGHOST: host,
      PGPORT: String(port),
      PGUSER: ADMIN,
      PGPASSWORD: password,
      PGDATABASE: database,
      // Keeps the compute awake during the dump.
      PGAPPNAME: BRANCHING,
      PGREQUIREAUTH: 'scram-sha-256',
      PGCONNECT_TIMEOUT: '5',
      PGCLIENTENCODING: 'UTF8',
      PGSYSCONFDIR: '/nonexistent',
      LC_ALL: 'C',
      PATH: '/usr/local/bin:/usr/bin:/bin',
    },
  })
  // Without descriptors the child has no streams: its error follows.
  if (child.pid === undefined) await once(child, 'spawn')
  const parts: Buffer[] = []
  let bytes = 0
  let complaint = ''
  child.stdout.on('data', (part: Buffer) => {
    bytes += part.length
    if (bytes <= MAX_BYTES) parts.push(part)
    else child.kill('SIGKILL')
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(0, MAX_COMPLAINT)
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('close', resolve)
    child.once('error', (error) => {
      if (error.name !== 'AbortError') reject(error)
    })
  })
  const isTooLarge = bytes > MAX_BYTES || complaint.includes('out of memory')
  if (code === 0) return { sql: Buffer.concat(parts).toString('utf8'), isTooLarge }
  return { isTooLarge, ...(code !== null && { complaint }) }
}

function requireSql({ sql, complaint, isTooLarge }: Dump, signal: AbortSignal): string {
  const byHand = 'run pg_dump --schema-only over the connection string instead'
  if (isTooLarge) throw new AppError('NOT_ALLOWED', `The schema is over ${MAX_BYTES / 2 ** 20} MiB of SQL: ${byHand}.`)
  if (signal.aborted) throw new AppError('UNAVAILABLE', 'The schema was not read to its end. Try again.')
  if (sql !== undefined) return withoutRestriction(sql)
  if (complaint === undefined)
    throw new AppError('NOT_ALLOWED', `The schema was not read within ${PATIENCE_MS / 1000} s: ${byHand}.`)
  // pg_dump waits for locks under a statement_timeout.
  if (/statement timeout/.test(complaint))
    throw new AppError(
      'NOT_ALLOWED',
      'Something holds a lock on a table of that database: try again when it has ended.',
    )
  throw new AppError('UNAVAILABLE', 'The schema could not be read from the compute. Try again.', { cause: complaint })
}

/**
 * Some releases frame their output in `\restrict WORD` and `\unrestrict WORD`, with a new word each time, which would
 * make equal schemas differ.
 */
function withoutRestriction(text: string): string {
  const word = /^\\restrict (\S+)\n\n?/m.exec(text)?.[1]
  if (word === undefined) return text
  return text.replace(`\\restrict ${word}\n\n`, '').replace(new RegExp(`\\n\\\\unrestrict ${word}\\n`), '')
}
