/* Many computes at once: their starts, what they cost the worker while nobody uses them, and another one's wake. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from '../test/clients.ts'
import { startNeap } from '../test/neap.ts'
import { branchOff, firstPlace, type Place, suspend } from '../test/project.ts'
import { percentile, report } from './samples.ts'

const [many = 100, rounds = 15, seconds = 20] = process.argv.slice(2).map(Number)
const AT_ONCE = 8
/** The interval in which the worker measures stores, and some more. */
const MEASURED_MS = 75_000
/** The unit of CPU times in /proc (proc(5), CLK_TCK) on every Linux that Neap supports. */
const TICKS_PER_SECOND = 100

const wakesAlone: number[] = []
const wakesBeside: number[] = []
const starts: number[] = []
const worker: number[] = []
const neap = await startNeap()
try {
  const first = await firstPlace(neap)
  const places: Place[] = []
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (places.length < many) {
        const at = places.push(first) - 1
        const place = await branchOff(neap, first)
        await suspend(neap, place)
        places[at] = place
      }
    }),
  )
  await wake(first, wakesAlone)
  // The worker still measures the stores that were just made.
  await sleep(MEASURED_MS)
  worker.push(await workerShare())
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
  await wake(first, wakesBeside)
  for (const client of clients) await client.end()
} finally {
  await neap.stop()
}

async function wake(place: Place, samples: number[]): Promise<void> {
  for (let round = 0; round <= rounds; round++) {
    await suspend(neap, place)
    const begun = performance.now()
    const client = await connect(neap, place.uri)
    await client.query('select 1')
    // The first one warms the code.
    if (round > 0) samples.push(performance.now() - begun)
    await client.end()
  }
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
report(
  'many',
  [
    `${many} endpoints of 0.25 CU are asked for at once; starts: until each has answered`,
    `wake: another endpoint, with none of them awake and beside all of them`,
    `the worker takes ${idle.toFixed(2)} % of a core with none awake, ${busy.toFixed(2)} % with all`,
  ],
  { starts, 'wake alone': wakesAlone, 'wake beside': wakesBeside },
  [
    { what: 'computes that answered', value: starts.length, least: many, unit: '' },
    { what: 'worker, per compute', value: (busy - idle) / many, most: 0.1, unit: ' % of a core' },
    {
      what: 'wake p95, beside / alone',
      value: percentile(wakesBeside, 0.95) / percentile(wakesAlone, 0.95),
      most: 1.2,
      unit: '×',
    },
  ],
)
