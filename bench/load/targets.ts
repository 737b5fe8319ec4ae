/* The targets of load: Neap's proxy, a Postgres with TLS, and PgBouncer in front of that Postgres. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type pg from 'pg'
import { ensureCertificates } from '../../src/tls/certificates.ts'
import { type Neap, startNeap } from '../../test/neap.ts'
import { firstPlace, resize } from '../../test/project.ts'
import { makeServers, PASSWORD, type Servers } from '../../test/proxy/servers.ts'
import { spawnInSession } from './session.ts'

/** An address for TCP and TLS, and credentials. */
export interface Target {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
  readonly options?: string
  readonly caFile: string
}

/** A proxy under test. */
export interface ProxyTarget extends Target {
  /** The pids of its processes at the moment. */
  pids(): readonly number[]
}

/** The CPUs of the compute under load: more than the machine gives it beside the load. */
const LOADED_CU = 4

/** Starts a Neap and lifts the size limit of its first endpoint: the load is for the proxy. */
export async function startForLoad(): Promise<Neap> {
  const neap = await startNeap()
  await neap.ended(await resize(neap, await firstPlace(neap), { min: LOADED_CU }))
  return neap
}

/** An endpoint of a Neap through its proxy: that of its first project, or of another connection URI. */
export function neapTarget(
  { ready }: Neap,
  { pooled = false, uri = ready.connection_uri ?? '' }: { readonly pooled?: boolean; readonly uri?: string } = {},
): Target {
  const url = new URL(uri)
  const options = url.searchParams.get('options')
  const pooler = pooled ? '-pooler' : ''
  return {
    host: options === null ? url.hostname.replace('.', `${pooler}.`) : url.hostname,
    port: Number(url.port),
    user: url.username,
    password: decodeURIComponent(url.password),
    database: url.pathname.slice(1),
    // The endpoint's full host name, or its id.
    ...(options !== null && { options: options.replace(/^endpoint=[^.]+/, `$&${pooler}`) }),
    caFile: ready.ca_file,
  }
}

interface Direct {
  readonly target: Target
  readonly socketDir: string
  readonly certFile: string
  readonly keyFile: string
}

/**
 * A Postgres with the same kind of TLS certificate and password as the proxy, and memory and sync settings of a
 * compute.
 */
export async function startDirect(servers: Servers): Promise<Direct> {
  const made = await ensureCertificates(join(servers.dir, 'tls'), { region: 'bench', domain: 'localhost' })
  const server = await servers.server('direct')
  const { socketDir } = server
  const certFile = join(socketDir, 'server.crt')
  const keyFile = join(socketDir, 'server.key')
  copyFileSync(made.certFile, certFile)
  copyFileSync(made.keyFile, keyFile)
  chmodSync(keyFile, 0o600)
  giveTo(socketDir, keyFile)
  const port = await freePort()
  await server.start(
    'listen_addresses=127.0.0.1',
    `port=${port}`,
    'shared_buffers=128MB',
    'fsync=on',
    'ssl=on',
    `ssl_cert_file=${certFile}`,
    `ssl_key_file=${keyFile}`,
  )
  const target = { host: '127.0.0.1', port, user: 'postgres', password: PASSWORD, database: 'postgres' }
  return { target: { ...target, caFile: made.caFile }, socketDir, certFile, keyFile }
}

interface Pgbouncer {
  readonly target: ProxyTarget
  stop(): Promise<void>
}

/**
 * PgBouncer with TLS towards clients, with the certificate of the direct Postgres, and that Postgres' Unix socket as
 * its server.
 * @param poolSize server connections for one user and database
 */
async function startPgbouncer(
  servers: Servers,
  { target, socketDir, certFile, keyFile }: Direct,
  mode: 'session' | 'transaction',
  poolSize: number,
): Promise<Pgbouncer> {
  const dir = join(servers.dir, `pgbouncer-${mode}`)
  mkdirSync(dir)
  const [config, users] = [join(dir, 'pgbouncer.ini'), join(dir, 'users.txt')]
  const port = await freePort()
  writeFileSync(users, `"${target.user}" "${target.password}"\n`)
  writeFileSync(
    config,
    `[databases]
${target.database} = host=${socketDir} port=${target.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
pool_mode = ${mode}
default_pool_size = ${poolSize}
max_client_conn = 2000
client_tls_sslmode = require
client_tls_cert_file = ${certFile}
client_tls_key_file = ${keyFile}
log_connections = 0
log_disconnections = 0
`,
  )
  // PgBouncer refuses to run as root.
  const { uid, gid } = statSync(socketDir)
  const child = spawnInSession('pgbouncer', [config], process.getuid?.() === 0 ? { uid, gid } : {})
  const ended = once(child, 'exit')
  const said: string[] = []
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stderr }).on('line', (line) => {
      said.push(line)
      if (line.includes('process up')) resolve()
    })
    void ended.then(() => reject(new Error(`pgbouncer ended: ${said.join('\n')}`)))
  })
  return {
    target: { ...target, port, pids: () => (child.pid === undefined ? [] : [child.pid]) },
    async stop() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

export type Targets = Readonly<Record<'neap' | 'pgbouncer', ProxyTarget> & Record<'direct', Target>>

/**
 * Starts all three, calls `use` with them, and stops them.
 * @param use also receives a directory for its files
 */
export async function withTargets(
  { mode, poolSize }: { mode: 'session' | 'transaction'; poolSize: number },
  use: (targets: Targets, dir: string) => Promise<void>,
): Promise<void> {
  const servers = await makeServers()
  const stops = [() => servers.close()]
  try {
    const neap = await startForLoad()
    stops.unshift(() => neap.stop())
    const direct = await startDirect(servers)
    const pgbouncer = await startPgbouncer(servers, direct, mode, poolSize)
    stops.unshift(() => pgbouncer.stop())
    const targets = {
      neap: { ...neapTarget(neap, { pooled: mode === 'transaction' }), pids: () => neap.parts('proxy') },
      pgbouncer: pgbouncer.target,
      direct: direct.target,
    }
    await use(targets, servers.dir)
  } finally {
    for (const stop of stops) await stop()
  }
}

/** The environment of programs that use libpq. */
export const libpqEnv = ({ host, port, user, password, database, options }: Target): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  PGHOST: host,
  ...(host.endsWith('localhost') && { PGHOSTADDR: '127.0.0.1' }),
  PGPORT: String(port),
  PGUSER: user,
  PGPASSWORD: password,
  PGDATABASE: database,
  PGSSLMODE: 'require',
  ...(options !== undefined && { PGOPTIONS: options }),
})

/**
 * The configuration of node-postgres. localhost becomes an address, so that no target's latency includes a name lookup.
 */
export const clientConfig = ({ caFile, host, ...target }: Target): pg.ClientConfig => ({
  ...target,
  host: host === 'localhost' ? '127.0.0.1' : host,
  ssl: { ca: readFileSync(caFile, 'utf8') },
})

// Debian installs PgBouncer in a directory that only root has in PATH.
process.env['PATH'] += ':/usr/sbin'

/** The Debian packages of programs that npm does not bring. */
const PACKAGES = { pgbench: 'postgresql-contrib', pgbouncer: 'pgbouncer', psql: 'postgresql-client' }

/** Exits with a message that names the packages to install when a program is missing. */
export function need(...programs: readonly (keyof typeof PACKAGES)[]): void {
  const directories = (process.env['PATH'] ?? '').split(':')
  const missing = programs.filter((program) => !directories.some((directory) => existsSync(join(directory, program))))
  if (missing.length === 0) return
  const packages = missing.map((program) => PACKAGES[program])
  console.error(`this benchmark needs ${missing.join(' and ')}; on Debian: apt-get install ${packages.join(' ')}`)
  process.exit(1)
}

function giveTo(likeThis: string, file: string): void {
  const { uid, gid } = statSync(likeThis)
  execFileSync('chown', [`${uid}:${gid}`, file])
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}
