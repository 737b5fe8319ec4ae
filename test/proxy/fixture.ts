import { execFile, spawnSync } from 'node:child_process'
import { createHmac, randomUUID } from 'node:crypto'
import pg from 'pg'
import { pino } from 'pino'
import { type Catalog, openCatalog } from '../../src/catalog/catalog.ts'
import { setActive, setIdle } from '../../src/catalog/compute.ts'
import { findEndpoint, setPause } from '../../src/catalog/endpoint.ts'
import { migrate } from '../../src/catalog/migrate.ts'
import { insertOperation, type Operation } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { end, notifyCompleted } from '../../src/engine/claim.ts'
import { newEndpointId } from '../../src/ids.ts'
import { type Proxy, type ProxyOptions, startProxy } from '../../src/proxy/proxy.ts'
import { ensureCertificates } from '../../src/tls/certificates.ts'
import { makeServers, PASSWORD, type Server, type Servers } from './servers.ts'

export { PASSWORD } from './servers.ts'

export const DOMAIN = 'local.localhost'

/** For a `log` option: the proxy's log is silent unless `NEAP_LOG_LEVEL` is set. */
export const log = pino({ level: process.env['NEAP_LOG_LEVEL'] ?? 'silent' })

export interface Fixture {
  readonly servers: Servers
  readonly catalogServer: Server
  readonly catalogUrl: string
  readonly catalog: Catalog
  readonly caFile: string
  /** The one compute, with a role `alice`. Every endpoint of a test is served by it. */
  readonly compute: Server
  /** The compute's verifier of the password of `alice`. */
  readonly verifier: string
  /** Starts a proxy. Its requestStart inserts an operation, starts a Postgres process and updates the row. */
  proxy(options?: Partial<ProxyOptions>): Promise<Proxy>
  /** The number of requests for a start, and of the operations made for them. */
  readonly starts: { asked: number; made: number }
  /** A new endpoint: active at the compute if its pid is given, else idle. */
  endpoint(pid?: number): Promise<string>
  /** Inserts an operation of an endpoint, for which the endpoint may be paused. */
  operation(endpointId: string, action: string): Promise<Operation>
  /** Pauses the endpoint for an operation; null ends the pause. */
  pause(endpointId: string, operationId: string | null): Promise<void>
  idle(endpointId: string): Promise<void>
  close(): Promise<void>
}

/**
 * A catalog and a compute, each a real server, and rows for endpoints; proxies on demand.
 * @param version of the compute's Postgres
 */
export async function makeFixture(version = 18): Promise<Fixture> {
  const servers = await makeServers()
  const [catalogServer, compute] = await Promise.all([servers.server('catalog'), servers.server('compute', version)])
  const [verifier] = await Promise.all([makeRole(compute), catalogServer.start()])
  const login = `postgres:${encodeURIComponent(PASSWORD)}`
  const catalogUrl = `postgresql://${login}@/postgres?host=${catalogServer.socketDir}&port=5432`
  await migrate(catalogUrl)
  const catalog = openCatalog(catalogUrl, 8, () => {})
  const proxyCatalog = openCatalog(catalogUrl, 8, () => {})
  const tls = await ensureCertificates(`${servers.dir}/tls`, { region: 'local', domain: 'localhost' })
  const account = randomUUID()
  await catalog.rows(sql`insert into account (id, name, email, plan) values (${account}, 'a', 'a@example.com', 'free')`)
  const proxies = new Set<Proxy>()
  const starts = { asked: 0, made: 0 }
  const queued = new Map<string, Promise<string | undefined>>()

  async function requestStart(
    { id: endpointId }: { readonly id: string },
    deadComputeId: string | undefined,
  ): Promise<string | undefined> {
    starts.asked += 1
    let start = queued.get(endpointId)
    if (!start) {
      start = startNow(endpointId, deadComputeId).finally(() => queued.delete(endpointId))
      queued.set(endpointId, start)
    }
    return start
  }

  async function startNow(endpointId: string, deadComputeId: string | undefined): Promise<string | undefined> {
    const endpoint = await findEndpoint(catalog, endpointId)
    if (endpoint?.current_state === 'active' && endpoint.compute_id !== deadComputeId) return undefined
    const { id } = await fixture.operation(endpointId, 'start_compute')
    starts.made += 1
    void (async () => {
      await compute.stop('SIGINT')
      // After a kill its last processes may still be there for a moment.
      const pid = await until(() => compute.start().catch(() => undefined))
      await catalog.transaction(async (tx) => {
        await setActive(tx, endpointId, endpointId, located(endpointId, pid))
        end(tx, id, 'finished', null)
      })
      await notifyCompleted(catalog, [id])
    })()
    return id
  }

  // Many endpoints share the one compute: each has a name of its own for it.
  const located = (endpointId: string, pid: number) => ({
    id: `${endpointId} ${pid}`,
    hostId: 'first',
    host: compute.socketDir,
    port: 5432,
    store: 'br-a',
    startedAt: new Date(),
  })

  const fixture: Fixture = {
    servers,
    catalogServer,
    catalogUrl,
    catalog,
    caFile: tls.caFile,
    compute,
    verifier,
    starts,
    async proxy(options = {}) {
      const proxy = await startProxy({
        catalog: proxyCatalog,
        places: [{ host: '127.0.0.1', port: 0 }],
        certificate: async () => tls,
        domain: DOMAIN,
        wakeTimeoutMs: 20_000,
        poolSize: 4,
        requestStart,
        mockSaltKey: Buffer.from('mock'),
        hashLoginCode,
        approvalUrl: (code) => `http://console.localhost/approve/${code}`,
        readVerifier: ({ host }, _computeId, role) => verifierAt(host, role),
        log,
        ...options,
      })
      proxies.add(proxy)
      return proxy
    },
    async endpoint(pid) {
      const id = newEndpointId()
      await catalog.rows(
        sql`insert into project (id, account_id, name, region_id, pg_version)
            values (${id}, ${account}, 'p', 'local', 18)`,
      )
      await catalog.rows(
        sql`insert into branch (id, account_id, project_id, name) values (${id}, ${account}, ${id}, 'main')`,
      )
      await catalog.rows(
        sql`insert into role (branch_id, account_id, name, login, verifier)
            values (${id}, ${account}, 'alice', true, ${verifier})`,
      )
      await catalog.rows(sql`
        insert into endpoint (id, account_id, project_id, branch_id, min_cu, max_cu, current_state)
        values (${id}, ${account}, ${id}, ${id}, 0.25, 0.25, 'idle')`)
      if (pid !== undefined) await setActive(catalog, id, id, located(id, pid))
      return id
    },
    operation(endpointId, action) {
      return insertOperation(catalog, {
        account_id: account,
        project_id: endpointId,
        branch_id: endpointId,
        endpoint_id: endpointId,
        action,
        input: {},
        step: 'any',
        excludes: [endpointId],
        shares: [],
        passes_shared: false,
        depends_on: [],
        deadline_seconds: 60,
      })
    },
    pause: (endpointId, operationId) => setPause(catalog, endpointId, operationId),
    idle: (endpointId) => setIdle(catalog, endpointId, 'request'),
    async close() {
      await Promise.all([...proxies].map((proxy) => proxy.stop()))
      await Promise.all([catalog.close(), proxyCatalog.close()])
      await servers.close()
    },
  }
  return fixture
}

/** The keyed hash of a code, as the fixture's proxies make it. */
export const hashLoginCode = (code: string): Buffer => createHmac('sha256', 'codes').update(code).digest()

/** Creates the role and returns its verifier. */
async function makeRole(compute: Server): Promise<string> {
  await compute.start()
  const client = superuserAt(compute.socketDir)
  await client.connect()
  await client.query(`create role alice login password '${PASSWORD}'`)
  await client.end()
  const verifier = await verifierAt(compute.socketDir, 'alice')
  await compute.stop()
  return verifier ?? ''
}

const superuserAt = (host: string): pg.Client =>
  new pg.Client({ host, user: 'postgres', password: PASSWORD, database: 'postgres' })

async function verifierAt(host: string, role: string): Promise<string | null | undefined> {
  const client = superuserAt(host)
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query<{ verifier: string | null }>(
    'select rolpassword as verifier from pg_authid where rolname = $1',
    [role],
  )
  await client.end()
  return rows[0]?.verifier
}

/** The reason for skipping tests with psql; false when it is installed. */
export const NO_PSQL = spawnSync('psql', ['--version']).error ? 'psql is not installed here' : false

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs psql with a connection string and one command. */
export function psql(connection: string, command: string, env: Record<string, string> = {}): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(
      'psql',
      ['-XAtq', connection, '-c', command],
      { env: { PATH: process.env['PATH'] ?? '', PGPASSWORD: PASSWORD, PGCONNECT_TIMEOUT: '30', ...env } },
      (error, stdout, stderr) => resolve({ code: error ? 1 : 0, stdout: stdout.trim(), stderr: stderr.trim() }),
    )
  })
}

/** A connection string of psql to an endpoint through a proxy: the endpoint is in `options`, not in the host name. */
export function byOptions(port: number, endpointId: string, more = ''): string {
  return `host=localhost ${parameters(port)} options=endpoint=${endpointId} ${more}`
}

/**
 * A connection string of psql to an endpoint through a proxy: the endpoint is in the host name, which psql sends in
 * TLS.
 */
export function bySni(port: number, endpointId: string, more = ''): string {
  return `host=${endpointId}.${DOMAIN} ${parameters(port)} ${more}`
}

const parameters = (port: number) => `hostaddr=127.0.0.1 port=${port} user=alice dbname=postgres sslmode=require`

/**
 * Connects with `pg`, the driver that most programs use. A later error of the connection only rejects the running
 * query.
 */
export async function connect(port: number, endpointId: string, more: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({
    host: '127.0.0.1',
    port,
    user: 'alice',
    password: PASSWORD,
    database: 'postgres',
    ssl: { rejectUnauthorized: false },
    options: `endpoint=${endpointId}`,
    ...more,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** A superuser's session directly at the compute, to observe it. */
export async function observer(fixture: Fixture): Promise<pg.Client> {
  const client = new pg.Client({
    host: fixture.compute.socketDir,
    user: 'postgres',
    password: PASSWORD,
    database: 'postgres',
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

/**
 * Repeats `ask` until it returns a value other than undefined, false, 0 and ''. Only the test runner's timeout limits
 * it.
 */
export async function until<T>(ask: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (answer) return answer
    await new Promise((resolve) => {
      setTimeout(resolve, 5)
    })
  }
}
