/* Latency of a client's first row when the endpoint is suspended, against the bare start of the same Postgres. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startNeap } from '../test/neap.ts'
import { firstPlace, newProject, suspend } from '../test/project.ts'
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
    const bareMs = await bareStart(data_dir, place.branch_id)
    const throughMs = await firstRow({ connectionString: place.uri, ssl: { ca } })
    await suspend(neap, out)
    const egressMs = await firstRow({ connectionString: out.uri, ssl: { ca } })
    // The first rounds warm the file cache and the code.
    if (round < 2) continue
    bare.push(bareMs)
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

/**
 * Starts the same postgres with its last configuration, as its own user, and returns the time until its first row over
 * the socket.
 */
async function bareStart(dataDir: string, branchId: string): Promise<number> {
  const home = join(dataDir, 'branches', branchId)
  const pgdata = join(home, 'pgdata')
  const { uid, gid } = statSync(pgdata)
  const scratch = mkdtempSync(join(tmpdir(), 'neap-bare-'))
  const hba = join(scratch, 'hba')
  writeFileSync(hba, 'local all all trust\n')
  spawn('chmod', ['-R', 'a+rwX', scratch])
  const version = readdirSync(join(dataDir, 'pg'))[0] ?? ''
  const postgres = existsSync(join(dataDir, 'pg', version, 'bin', 'postgres'))
    ? join(dataDir, 'pg', version, 'bin', 'postgres')
    : join(dataDir, 'pg', version)
  const log = openSync(join(scratch, 'log'), 'w')
  const args = [
    '-D',
    pgdata,
    '-c',
    `config_file=${join(home, 'conf/neap.conf')}`,
    '-c',
    `hba_file=${hba}`,
    '-c',
    'listen_addresses=',
    '-p',
    '54999',
    '-k',
    scratch,
  ]
  await once(spawn('chmod', ['777', scratch]), 'exit')
  const begun = performance.now()
  const server = spawn(postgres, args, { uid, gid, detached: true, stdio: ['ignore', log, log] })
  await ready(pgdata, server)
  const client = new pg.Client({ host: scratch, port: 54_999, user: 'neap_admin', database: 'neap' })
  await client.connect()
  await client.query('select 1')
  const ms = performance.now() - begun
  await client.end()
  const gone = once(server, 'exit')
  server.kill('SIGINT')
  await gone
  closeSync(log)
  rmSync(scratch, { recursive: true })
  return ms
}

function ready(pgdata: string, server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      const [pid, , , , , , , status] = existsSync(join(pgdata, 'postmaster.pid'))
        ? readFileSync(join(pgdata, 'postmaster.pid'), 'utf8').split('\n')
        : []
      if (Number(pid) !== server.pid || !status?.startsWith('ready')) return
      watcher.close()
      resolve()
    }
    const watcher = watch(pgdata, (_event, name) => {
      if (name === 'postmaster.pid') look()
    })
    server.once('exit', (code) => {
      watcher.close()
      reject(new Error(`postgres ended with ${code}`))
    })
  })
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
