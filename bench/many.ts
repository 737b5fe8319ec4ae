/*
 * Many computes at once: their starts, what they cost the worker while they are idle, and another one's wake; each
 * against as many servers started by hand on the same data.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from '../test/clients.ts'
import { startNeap } from '../test/neap.ts'
import { branchOff, firstPlace, type Place, suspend } from '../test/project.ts'
import { type BareServer, bareStart } from './load/bare_start.ts'
import { percentile, report } from './samples.ts'

const [many = 100, rounds = 15, seconds = 20] = process.argv.slice(2).map(Number)
const AT_ONCE = 8
/** The starts that one worker runs at once. */
const CONCURRENCY = 16
/** The interval in which the worker measures stores, and some more. */
const MEASURED_MS = 75_000
/** The unit of CPU times in /proc (proc(5), CLK_TCK) on every Linux that Neap supports. */
const TICKS_PER_SECOND = 100

/** Latencies of one server: alone, and beside all others. */
interface Latencies {
  readonly alone: number[]
  readonly beside: number[]
}

const wakes: Latencies = { alone: [], beside: [] }
const bare: Latencies = { alone: [], beside: [] }
const starts: number[] = []
const bareStarts: number[] = []
const sessionEnds: number[] = []
/** Milliseconds from the deletion of the project until no compute runs. */
let deleted = NaN
const worker: number[] = []
const neap = await startNeap({ env: { NEAP_WORKER_CONCURRENCY: String(CONCURRENCY) } })
const dataDir = neap.ready.data_dir
try {
  const first = await firstPlace(neap)
  const places: Place[] = []
  await atMost(AT_ONCE, Array.from({ length: many }), async () => {
    const place = await branchOff(neap, first)
    await suspend(neap, place)
    places.push(place)
  })
  // The worker still measures the stores that were just made.
  await sleep(MEASURED_MS)
  worker.push(await workerShare())
  await measureAlone(first)
  await measureBare(first, places)
  await measureNeap(first, places)
  // Once more, since a machine may be slower at one time than at another.
  await measureAlone(first)
  await measureDeletion(first, places)
} finally {
  await neap.stop()
}

/** Wakes and bare starts in turns, while no other server runs. */
async function measureAlone(first: Place): Promise<void> {
  for (let round = 0; round <= rounds; round++) {
    await suspend(neap, first)
    // The first one warms the code.
    await startBare(first, round > 0 ? bare.alone : [])
    await wake(first, round > 0 ? wakes.alone : [])
  }
}

/** All of them started by hand at once, and another one beside them. */
async function measureBare(first: Place, places: readonly Place[]): Promise<void> {
  await suspend(neap, first)
  const servers: BareServer[] = []
  const begun = performance.now()
  try {
    await atMost(CONCURRENCY, places, async ({ branch_id }) => {
      servers.push(await bareStart(dataDir, branch_id))
      bareStarts.push(performance.now() - begun)
    })
    for (let round = 0; round < rounds; round++) await startBare(first, bare.beside)
  } finally {
    await atMost(CONCURRENCY, servers, (server) => server.stop())
  }
}

/** All of them woken at once, and another one beside them; then they are suspended. */
async function measureNeap(first: Place, places: readonly Place[]): Promise<void> {
  const begun = performance.now()
  const clients = await Promise.all(
    places.map(async ({ uri }) => {
      const client = await connect(neap, uri)
      await client.query('select 1')
      starts.push(performance.now() - begun)
      return client
    }),
  )
  worker.push(await workerShare())
  for (let round = 0; round < rounds; round++) {
    await suspend(neap, first)
    await wake(first, wakes.beside)
  }
  for (const client of clients) await client.end()
  await atMost(AT_ONCE, places, (place) => suspend(neap, place))
}

/** The project deleted while all of them run, each with a client. */
async function measureDeletion({ project_id }: Place, places: readonly Place[]): Promise<void> {
  const clients = await Promise.all(places.map(({ uri }) => connect(neap, uri)))
  const begun = performance.now()
  const ended = clients.map(async (client) => {
    await new Promise((resolve) => client.once('end', resolve))
    sessionEnds.push(performance.now() - begun)
  })
  await neap.call('DELETE /projects/:project_id', { params: { project_id } })
  await Promise.all(ended)
  while ((await neap.call('GET /status', {})).computes.length > 0) await sleep(50)
  deleted = performance.now() - begun
}

async function startBare({ branch_id }: Place, samples: number[]): Promise<void> {
  const server = await bareStart(dataDir, branch_id)
  await server.stop()
  samples.push(server.ms)
}

async function wake({ uri }: Place, samples: number[]): Promise<void> {
  const begun = performance.now()
  const client = await connect(neap, uri)
  await client.query('select 1')
  samples.push(performance.now() - begun)
  await client.end()
}

async function atMost<T>(count: number, items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  await Promise.all(
    Array.from({ length: count }, async () => {
      for (const item of left) await work(item)
    }),
  )
}

/** The share of a core that the worker takes, in percent. */
async function workerShare(): Promise<number> {
  await sleep(2_000)
  const [ticks, begun] = [cpuTicks(), performance.now()]
  await sleep(seconds * 1000)
  return ((cpuTicks() - ticks) / TICKS_PER_SECOND / ((performance.now() - begun) / 1000)) * 100
}

function cpuTicks(): number {
  const stat = readFileSync(`/proc/${neap.part('worker')}/stat`, 'utf8')
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  return user + system
}

const [idle = 0, busy = 0] = worker
const ratio = (of: readonly number[], to: readonly number[], share: number): number =>
  percentile(of, share) / percentile(to, share)
const bareRatio = ratio(bare.beside, bare.alone, 0.5).toFixed(2)
report(
  'many',
  [
    `${many} endpoints of 0.25 CU are asked for at once, of which the worker starts ${CONCURRENCY} at a time; ` +
      'starts: until each has answered',
    `bare starts: the same servers by hand, ${CONCURRENCY} at a time, until each has answered over its socket (trust)`,
    'wake: another endpoint, with none of them awake and beside all of them; bare: that one by hand, ' +
      `with none of them, and beside as many by hand (p50 ${bareRatio}×, which is the kernel's and Postgres' own part)`,
    'session ends: after the DELETE of the project with all of them, each with a client; ' +
      `no compute runs after ${deleted.toFixed(0)} ms`,
    `the worker takes ${idle.toFixed(2)} % of a core with none awake, ${busy.toFixed(2)} % with all`,
  ],
  {
    starts,
    'bare starts': bareStarts,
    'wake alone': wakes.alone,
    'wake beside': wakes.beside,
    'bare alone': bare.alone,
    'bare beside': bare.beside,
    'session ends': sessionEnds,
  },
  [
    { what: 'computes that answered', value: starts.length, least: many, unit: '' },
    { what: 'worker, per compute', value: (busy - idle) / many, most: 0.1, unit: ' % of a core' },
    { what: 'wake p50, beside / alone', value: ratio(wakes.beside, wakes.alone, 0.5), most: 1.2, unit: '×' },
    { what: 'wake p95, beside / alone', value: ratio(wakes.beside, wakes.alone, 0.95), most: 1.2, unit: '×' },
    { what: 'all at once, p50 / bare p50', value: ratio(starts, bareStarts, 0.5), most: 1.3, unit: '×' },
    { what: 'all at once, p95 / bare p95', value: ratio(starts, bareStarts, 0.95), most: 1.3, unit: '×' },
  ],
)
