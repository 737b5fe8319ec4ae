/* Latency of a client's first row when the endpoint is suspended, against the bare start of the same Postgres. */
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { startNeap } from '../test/neap.ts'
import { firstPlace, newProject, suspend } from '../test/project.ts'
import { bareStart } from './load/bare_start.ts'
import { percentile, report } from './samples.ts'

const ROUNDS = Number(process.argv[2] ?? 40)

const neap = await startNeap()
const through: number[] = []
const bare: number[] = []
const egress: number[] = []
try {
  const { ca_file, data_dir } = neap.ready
  const place = await firstPlace(neap)
  const out = await newProject(neap, { settings: { enable_egress: true } })
  const ca = readFileSync(ca_file, 'utf8')
  for (let round = 0; round < ROUNDS + 2; round++) {
    await suspend(neap, place)
    const server = await bareStart(data_dir, place.branch_id)
    await server.stop()
    const throughMs = await firstRow({ connectionString: place.uri, ssl: { ca } })
    await suspend(neap, out)
    const egressMs = await firstRow({ connectionString: out.uri, ssl: { ca } })
    // The first rounds warm the file cache and the code.
    if (round < 2) continue
    bare.push(server.ms)
    through.push(throughMs)
    egress.push(egressMs)
  }
} finally {
  await neap.stop()
}

async function firstRow(config: pg.ClientConfig): Promise<number> {
  const begun = performance.now()
  const url = new URL(config.connectionString ?? '')
  const client = new pg.Client({
    host: url.hostname,
    port: Number(url.port),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: url.pathname.slice(1),
    options: url.searchParams.get('options') ?? undefined,
    ssl: config.ssl as object,
  })
  await client.connect()
  await client.query('select 1')
  const ms = performance.now() - begun
  await client.end()
  return ms
}

const p50 = percentile(through, 0.5)
report(
  'wake',
  [
    'through: a client waits for the first row of `select 1` at a suspended endpoint: ' +
      'new TCP connection, TLS 1.3, SCRAM, through the proxy',
    'bare:    spawn of the same postgres with the same settings on the same data directory, ' +
      'until the first row over its socket (trust)',
    'egress:  as through, of a project whose computes may reach out',
    'in turn, in one run; the endpoint is suspended before each round',
  ],
  { through, bare, egress },
  [
    { what: 'p50 / bare p50', value: p50 / percentile(bare, 0.5), most: 1.5, unit: '×' },
    { what: 'p95 / bare p95', value: percentile(through, 0.95) / percentile(bare, 0.95), most: 1.8, unit: '×' },
    { what: 'p50', value: p50, most: 100, unit: ' ms' },
  ],
)
