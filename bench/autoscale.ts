/*
 * Autoscaling: loads of twenty minutes, on a model of a compute with as many CPUs as its size gives it, sized by Neap's
 * policy and by the formula of Neon's autoscaler; then four busy sessions on a real endpoint. Draws
 * docs/autoscaling.svg.
 */
import { writeFileSync } from 'node:fs'
import { firstState, nextSize } from '../src/scaling/policy.ts'
import { connect, query } from '../test/clients.ts'
import { type Neap, startNeap } from '../test/neap.ts'
import { until } from '../test/processes.ts'
import { branchOff, endpointOf, firstPlace } from '../test/project.ts'
import { drawRuns } from './load/chart.ts'
import { type RunResult, runQueue, slowSeconds, type Tick } from './load/cpu_queue.ts'
import { neonFormula } from './load/neon_formula.ts'
import { TRACES } from './load/traces.ts'
import { type Mark, percentile, report } from './samples.ts'

const RANGE = { min: 1, max: 7 }
const [rounds = 5] = process.argv.slice(2).map(Number)
/** Ticks of the model between two samples, as the worker takes them. */
const TICKS_PER_SAMPLE = 25

const runs = TRACES.map((trace) => {
  const formula = neonFormula(RANGE)
  const own = runQueue(trace, RANGE.min, neapPolicy())
  const neon = runQueue(trace, RANGE.min, ({ at, runnable, onDisk }) => formula.look(at, runnable + onDisk))
  const most = runQueue(trace, RANGE.max, () => RANGE.max)
  return {
    trace,
    neap: own,
    neon,
    most,
    slow: { neap: slowSeconds(trace, own, most), neon: slowSeconds(trace, neon, most) },
  }
})

function neapPolicy(): (tick: Tick) => number {
  let state = firstState(RANGE.min)
  let [ticks, used, wanted, stopped] = [0, 0, 0, 0]
  return (tick) => {
    ticks++
    used += tick.used
    wanted += tick.runnable
    if (tick.runnable > state.cu) stopped++
    if (ticks < TICKS_PER_SAMPLE) return state.cu
    const sample = { used: used / ticks, wanted: wanted / ticks, throttled: stopped / ticks }
    const memory = { anonBytes: 0, cacheBytes: 0, refaultBytes: 0, memoryStall: 0 }
    state = nextSize(state, { seconds: 0.25, ...sample, ...memory }, RANGE).state
    ;[ticks, used, wanted, stopped] = [0, 0, 0, 0]
    return state.cu
  }
}

const reached: number[] = []
const neap = await startNeap()
try {
  for (let round = 0; round < rounds; round++) reached.push(await secondsToFour(neap))
} finally {
  await neap.stop()
}

/** The seconds from the moment that four sessions of an endpoint of 1 to 7 CU are busy until it has 4 CU. */
async function secondsToFour(on: Neap): Promise<number> {
  const place = await branchOff(on, await firstPlace(on), RANGE)
  const clients = await Promise.all(Array.from({ length: 4 }, () => connect(on, place.uri)))
  const begun = performance.now()
  const busy = clients.map((client) =>
    client.query('do $$ declare n bigint := 0; begin loop n := n + 1; end loop; end $$').catch(() => undefined),
  )
  await until('it has 4 CU', async () => {
    const { current_cu = 0 } = await endpointOf(on, place)
    return current_cu >= 4
  })
  const seconds = (performance.now() - begun) / 1000
  await query(on, place.uri, `select pg_terminate_backend(pid) from pg_stat_activity where query like 'do %'`)
  await Promise.all(busy)
  const { operations } = await on.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { project_id: place.project_id, branch_id: place.branch_id },
  })
  await on.ended(operations)
  return seconds
}

writeFileSync(new URL('../docs/autoscaling.svg', import.meta.url), drawRuns(runs))

const p99 = ({ took }: RunResult) =>
  percentile(
    took.filter((each) => each !== undefined),
    0.99,
  ) * 1000
report(
  'autoscale',
  [
    'model: jobs arrive whether or not earlier ones have ended, share the CPUs of the size, and use one at most; ' +
      'sizes 1 to 7 CU, twenty minutes of each load',
    "neap: this policy, by samples of 250 ms; neon: the formula of Neon's autoscaler by the same jobs; most: 7 CU",
    'slow: seconds in which over 1 % of the jobs took twice as long as with 7 CU and 50 ms longer; p99 of jobs',
    ...runs.map(({ trace, neap: own, neon, most, slow }) =>
      [
        trace.name.padEnd(9),
        `slow ${slow.neap} / ${slow.neon} s`.padEnd(20),
        `CU-seconds ${own.cuSeconds.toFixed(0)} / ${neon.cuSeconds.toFixed(0)}`.padEnd(26),
        `p99 ${p99(own).toFixed(0)} / ${p99(neon).toFixed(0)} / ${p99(most).toFixed(0)} ms`,
      ].join(' '),
    ),
    'real: from four busy sessions of an endpoint of 1 to 7 CU to 4 CU, as its API answers',
  ],
  { 'real: 4 CU after': reached.map((seconds) => seconds * 1000) },
  [
    ...runs.flatMap(({ trace: { name }, neap: own, neon, slow }): Mark[] => [
      {
        what: `${name}: slow seconds / Neon's`,
        value: ratio(slow.neap, slow.neon),
        most: 1,
        unit: '×',
      },
      { what: `${name}: CU-seconds / Neon's`, value: own.cuSeconds / neon.cuSeconds, most: 1.05, unit: '×' },
    ]),
    { what: 'seconds to 4 CU', value: Math.max(...reached), most: 2, unit: ' s' },
  ],
)

/** Nothing in both counts as equal. */
function ratio(own: number, other: number): number {
  return own === other ? 1 : own / other
}
