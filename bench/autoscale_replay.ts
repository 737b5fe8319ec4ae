/*
 * Autoscaling: excerpts of the loads of bench/autoscale.ts, sent to a real endpoint of 1 to 7 CU and to a real one of
 * 7 CU. The samples of the latter, as a load without limits, are given to the formula of Neon's autoscaler as well. The
 * demand for CPUs is lowered to what this machine has.
 */
import { availableParallelism } from 'node:os'
import { cgroups } from '../src/compute/process/cgroup.ts'
import { connect, query } from '../test/clients.ts'
import { type Neap, startNeap } from '../test/neap.ts'
import { branchOff, computeIdOf, endpointOf, firstPlace, type SizeRange } from '../test/project.ts'
import { neonFormula } from './load/neon_formula.ts'
import { type Excerpt, type Replay, replay } from './load/replay.ts'
import { type Trace, TRACES } from './load/traces.ts'
import { type Mark, percentile, report } from './samples.ts'

const RANGE = { min: 1, max: 7 }
/** The part of the machine's CPUs that a load needs at most: the rest is for clients and proxies. */
const PART = 0.75
/** Where an excerpt of each trace begins. */
const FROM: Readonly<Record<string, number>> = {
  step: 100,
  spike: 90,
  sawtooth: 200,
  ramp: 1140,
  cron: 58,
  disk: 1,
  lock: 1,
  long: 55,
}
const [seconds = 45] = process.argv.slice(2).map(Number)
/** In which its limit stops a compute for more than this part of the time. */
const THROTTLED = 0.05

interface Compared {
  readonly trace: Trace
  readonly neap: Replay
  readonly most: Replay
  readonly neon: { readonly cuSeconds: number; readonly throttled: number }
}

const compared: Compared[] = []
const neap = await startNeap({ env: { NEAP_OVERCOMMIT: '8' } })
try {
  for (const trace of TRACES) {
    const excerpt = excerptOf(trace)
    const most = await run(neap, trace, excerpt, { min: RANGE.max })
    const own = await run(neap, trace, excerpt, RANGE)
    compared.push({ trace, neap: own, most, neon: byFormula(most) })
    console.error(`${trace.name}: ${own.tookMs.length} of ${most.tookMs.length} jobs`)
  }
} finally {
  await neap.stop()
}

function excerptOf({ name, jobs }: Trace): Excerpt {
  const from = FROM[name] ?? 0
  const within = jobs.filter(({ at }) => at >= from && at < from + seconds)
  // The largest demand in any five seconds.
  const perFive = new Map<number, number>()
  for (const { at, cpu } of within) perFive.set(Math.floor(at / 5), (perFive.get(Math.floor(at / 5)) ?? 0) + cpu / 5)
  const peak = name === 'long' ? 1 : Math.max(...perFive.values())
  return { from, seconds, factor: Math.min(1, (PART * availableParallelism()) / peak) }
}

/** Sends a load to a branch of its own, and removes that. */
async function run(on: Neap, trace: Trace, excerpt: Excerpt, range: SizeRange): Promise<Replay> {
  const place = await branchOff(on, await firstPlace(on), range)
  await query(on, place.uri, 'create table flushed (i int)')
  const clients = await Promise.all(Array.from({ length: trace.sessions }, () => connect(on, place.uri, { lost() {} })))
  const [first] = clients
  const begun = performance.now()
  await first?.query('select count(*) from generate_series(1, 500000)')
  const rowsPerSecond = 500_000 / ((performance.now() - begun) / 1000)
  const replayed = await replay(
    {
      clients,
      groups: cgroups(on.ready.data_dir),
      computeId: await computeIdOf(on, place),
      rowsPerSecond,
      size: async () => (await endpointOf(on, place)).current_cu ?? 0,
    },
    trace,
    excerpt,
  )
  const { operations } = await on.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { project_id: place.project_id, branch_id: place.branch_id },
  })
  await on.ended(operations)
  await Promise.all(clients.map((client) => client.end().catch(() => undefined)))
  return replayed
}

/** The sizes that the formula would have chosen, and the seconds in which they would have been too small. */
function byFormula({ samples }: Replay): Compared['neon'] {
  const formula = neonFormula(RANGE)
  let [at, cuSeconds, throttled] = [0, 0, 0]
  for (const sample of samples) {
    at += sample.seconds
    const cu = formula.look(at, sample.wanted)
    cuSeconds += cu * sample.seconds
    if (sample.used > cu) throttled += sample.seconds
  }
  return { cuSeconds, throttled }
}

const throttledSeconds = ({ samples }: Replay): number =>
  samples.reduce((sum, sample) => sum + (sample.throttled > THROTTLED ? sample.seconds : 0), 0)
const cuSeconds = ({ samples }: Replay): number =>
  samples.reduce((sum, { cu, seconds: length }) => sum + cu * length, 0)
const p99 = ({ tookMs }: Replay): string => (tookMs.length === 0 ? '—' : percentile(tookMs, 0.99).toFixed(0))

report(
  'autoscale_replay',
  [
    `${seconds} s of each load, at an endpoint of 1 to 7 CU (neap) and at one of 7 CU (most), through the proxy`,
    "neon: the sizes of the formula of Neon's autoscaler for the samples of `most`, and when it used more than those",
    'throttled: seconds in which its limit stopped the compute for over 5 % of the time, by the kernel',
    ...compared.map(({ trace, neap: own, most, neon }) =>
      [
        trace.name.padEnd(9),
        `throttled ${throttledSeconds(own).toFixed(1)} / ${neon.throttled.toFixed(1)} s`.padEnd(26),
        `CU-seconds ${cuSeconds(own).toFixed(0)} / ${neon.cuSeconds.toFixed(0)}`.padEnd(24),
        `p99 ${p99(own)}, with 7 CU ${p99(most)} ms`,
      ].join(' '),
    ),
  ],
  Object.fromEntries(
    compared.flatMap(({ trace: { name }, neap: own }) => (own.tookMs.length > 0 ? [[name, own.tookMs]] : [])),
  ),
  compared.flatMap(({ trace: { name }, neap: own, neon }): Mark[] => [
    { what: `${name}: throttled`, value: throttledSeconds(own), most: neon.throttled, unit: ' s' },
    { what: `${name}: CU-seconds / Neon's`, value: cuSeconds(own) / neon.cuSeconds, most: 1.05, unit: '×' },
  ]),
)
