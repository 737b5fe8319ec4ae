/* How long a new connection takes at a compute that runs, through the proxy and straight at a Postgres with TLS. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, readFileSync, statSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import { ensureCertificates } from '../src/tls/certificates.ts'
import { startNeap } from '../test/neap.ts'
import { makeServers, PASSWORD } from '../test/proxy/servers.ts'
import { percentile, report } from './samples.ts'

const ROUNDS = Number(process.argv[2] ?? 300)
const WARM_UP = 20

const neap = await startNeap()
const servers = await makeServers()
const through: number[] = []
const direct: number[] = []
try {
  const url = new URL(neap.ready.connection_uri ?? '')
  const ofProxy: pg.ClientConfig = {
    host: url.hostname,
    port: Number(url.port),
    user: url.username,
    password: decodeURIComponent(url.password),
    database: url.pathname.slice(1),
    ...(url.searchParams.has('options') && { options: url.searchParams.get('options') as string }),
    ssl: { ca: readFileSync(neap.ready.ca_file, 'utf8') },
  }
  const ofDirect = await startDirect()
  for (let round = 0; round < ROUNDS + WARM_UP; round++) {
    const [one, other] = [await firstRow(ofProxy), await firstRow(ofDirect)]
    if (round < WARM_UP) continue
    through.push(one)
    direct.push(other)
  }
} finally {
  await Promise.all([neap.stop(), servers.close()])
}

/** A Postgres with TLS by a certificate of the same kind, and a password of the same kind. */
async function startDirect(): Promise<pg.ClientConfig> {
  const { caFile, certFile, keyFile } = await ensureCertificates(join(servers.dir, 'tls'), {
    region: 'bench',
    domain: 'localhost',
  })
  const server = await servers.server('direct')
  const key = join(server.socketDir, 'server.key')
  copyFileSync(keyFile, key)
  chmodSync(key, 0o600)
  const { uid, gid } = statSync(server.socketDir)
  execFileSync('chown', [`${uid}:${gid}`, key])
  const certificate = join(server.socketDir, 'server.crt')
  copyFileSync(certFile, certificate)
  const port = await freePort()
  await server.start(
    'listen_addresses=127.0.0.1',
    `port=${port}`,
    'ssl=on',
    `ssl_cert_file=${certificate}`,
    `ssl_key_file=${key}`,
  )
  const ssl = { ca: readFileSync(caFile, 'utf8') }
  return { host: '127.0.0.1', port, user: 'postgres', password: PASSWORD, database: 'postgres', ssl }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

async function firstRow(config: pg.ClientConfig): Promise<number> {
  const begun = performance.now()
  const client = new pg.Client(config)
  await client.connect()
  await client.query('select 1')
  const ms = performance.now() - begun
  await client.end()
  return ms
}

report(
  'connect',
  [
    'through: a new TCP connection, TLS 1.3, SCRAM-SHA-256 and `select 1` by the same driver, through the proxy to a compute that runs',
    'direct:  the same straight at a Postgres with TLS, a certificate of the same kind and SCRAM with as many iterations',
    'one after the other, in turn, in one run; the first of both are left out',
  ],
  { through, direct },
  [{ what: 'p50 / direct p50', value: percentile(through, 0.5) / percentile(direct, 0.5), most: 1.5, unit: '×' }],
)
