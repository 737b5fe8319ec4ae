import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { type Neap, type Ran, run } from './neap.ts'

/** For the `skip` of a test: the programs that are not installed. Returns false when all are installed. */
export function without(...programs: readonly string[]): string | false {
  const absent = programs.filter((program) => spawnSync(program, ['--version']).error)
  return absent.length > 0 && `${absent.join(' and ')} not installed`
}

const ENVIRONMENT = { PATH: process.env['PATH'], PGCONNECT_TIMEOUT: '60' }

/** Runs psql with a connection string, as a user does. `through`: a wrapper command that ends in an exec of psql. */
export async function psql(connection: string, sql: string, through: readonly string[] = []): Promise<Ran> {
  const [program, ...rest] = [...through, 'psql', '-XAtq', connection, '-c', sql]
  const ran = await run(program, rest, ENVIRONMENT)
  return { ...ran, stdout: ran.stdout.trim(), stderr: ran.stderr.trim() }
}

/** Converts a connection URI to libpq's keyword/value form, with these changes. */
export function conninfo(uri: string, changes: Record<string, string | undefined> = {}): string {
  const { database, ...rest } = parts(uri)
  const sslmode = new URL(uri).searchParams.get('sslmode') ?? undefined
  const words = { ...rest, dbname: database, sslmode, ...changes }
  return Object.entries(words)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}='${String(value).replaceAll(/['\\]/g, '\\$&')}'`)
    .join(' ')
}

function parts(uri: string) {
  const url = new URL(uri)
  return {
    host: url.searchParams.get('host') ?? url.hostname,
    port: Number(url.searchParams.get('port') ?? url.port),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    options: url.searchParams.get('options') ?? undefined,
  }
}

/** A URI of the same database directly at its compute, bypassing the proxy. */
export function direct(uri: string, compute: { socket_dir?: string; port?: number } = {}): string {
  const url = new URL(uri)
  const host = encodeURIComponent(compute.socket_dir ?? '')
  const place = `host=${host}&port=${compute.port}&sslmode=disable`
  return `postgresql://${url.username}:${url.password}@localhost${url.pathname}?${place}`
}

/**
 * Connects with node-postgres and verifies the certificate, unless the URI disables TLS. `lost` is called when the
 * connection breaks.
 */
export async function connect(
  neap: { readonly ready: Pick<Neap['ready'], 'ca_file'> },
  uri: string,
  { lost = () => {}, ...more }: pg.ClientConfig & { lost?: (error: Error) => void } = {},
): Promise<pg.Client> {
  const ssl = uri.includes('sslmode=disable') ? false : { ca: readFileSync(neap.ready.ca_file, 'utf8') }
  const client = new pg.Client({ ...parts(uri), ssl, ...more })
  client.on('error', lost)
  await client.connect()
  return client
}

/** Runs one query on a new connection. */
export async function query<R extends pg.QueryResultRow>(neap: Neap, uri: string, sql: string): Promise<R[]> {
  const client = await connect(neap, uri)
  try {
    return (await client.query<R>(sql)).rows
  } finally {
    await client.end()
  }
}
