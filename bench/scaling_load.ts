/*
 * pgbench through the proxy at an endpoint of 1 to 7 CU: a light load, a heavy one, the light one again until the
 * endpoint has 1 CU. Draws docs/scaling_load.svg.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { startNeap } from '../test/neap.ts'
import { branchOff, endpointOf, firstPlace, type Place } from '../test/project.ts'
import { spawnInSession } from './load/session.ts'
import { libpqEnv, need, neapTarget } from './load/targets.ts'
import { drawOverTime } from './load/time_chart.ts'
import { percentile, report } from './samples.ts'

const [heavySeconds = 90, lightSeconds = 30, lastSeconds = 420] = process.argv.slice(2).map(Number)
/** A transaction uses a CPU for a millisecond or two. */
const SCRIPT = 'select count(*) from generate_series(1, 10000);\n'
const LIGHT = ['-c', '1', '-R', '20']
const HEAVY = ['-c', '8', '-j', '2']

need('pgbench')
const dir = mkdtempSync(join(tmpdir(), 'neap-bench-'))
const file = join(dir, 'load.sql')
writeFileSync(file, SCRIPT)
const neap = await startNeap()
const cu: (number | undefined)[] = []
const tps: (number | undefined)[] = []
let failures = 0
const begun = Date.now()
const second = () => Math.floor((Date.now() - begun) / 1000)
let isOver = false

/** Runs pgbench for so many seconds, and notes its transactions per second. */
async function load(
  place: Place,
  args: readonly string[],
  seconds: number,
  ends: () => boolean = () => false,
): Promise<void> {
  const all = ['-n', '-f', file, '-M', 'prepared', ...args, '-T', String(seconds), '-P', '1']
  const child = spawnInSession('pgbench', all, { env: libpqEnv(neapTarget(neap, { uri: place.uri })) })
  const ended = once(child, 'exit')
  createInterface({ input: child.stderr }).on('line', (line) => {
    const [, rate] = /^progress: [\d.]+ s, ([\d.]+) tps/.exec(line) ?? []
    if (rate !== undefined) tps[second()] = Number(rate)
    if (/error|abort/i.test(line)) failures++
    if (ends()) child.kill('SIGINT')
  })
  await ended
}

async function followSize(place: Place): Promise<void> {
  while (!isOver) {
    cu[second()] = (await endpointOf(neap, place)).current_cu
    await sleep(250)
  }
}

let heavyFrom = 0
let lastFrom = 0
try {
  const place = await branchOff(neap, await firstPlace(neap), { min: 1, max: 7 })
  const following = followSize(place)
  await load(place, LIGHT, lightSeconds)
  heavyFrom = second()
  await load(place, HEAVY, heavySeconds)
  lastFrom = second()
  await load(place, LIGHT, lastSeconds, () => cu.at(-1) === 1)
  isOver = true
  await following
} finally {
  isOver = true
  await neap.stop()
  rmSync(dir, { recursive: true })
}

const phases = [
  { name: '20 transactions per second', from: 0 },
  { name: '8 clients, as fast as they can', from: heavyFrom },
  { name: '20', from: lastFrom },
]
const curves = [
  { name: 'size', unit: ' CU', values: Array.from(cu) },
  { name: 'transactions per second', unit: '', values: Array.from(tps) },
]
writeFileSync(new URL('../docs/scaling_load.svg', import.meta.url), drawOverTime(curves, phases))

const heavy = (values: readonly (number | undefined)[], from: number, to: number) =>
  values.slice(from, to).filter((value) => value !== undefined)
const first = heavy(tps, heavyFrom, heavyFrom + 3)[0] ?? 0
const later = percentile(heavy(tps, heavyFrom + 10, lastFrom), 0.5)
const grew = cu.findIndex((size, at) => at >= heavyFrom && (size ?? 0) >= 2)
report(
  'scaling_load',
  [
    `pgbench -M prepared, ${SCRIPT.trim()}, through the proxy at an endpoint of 1 to 7 CU`,
    `light: ${LIGHT.join(' ')}; heavy: ${HEAVY.join(' ')} for ${heavySeconds} s; then light until it has 1 CU`,
    `first second of the heavy load: ${first} tps; from the tenth on: ${later} tps`,
    `back at 1 CU ${cu.length - lastFrom} s after the heavy load`,
  ],
  { 'heavy, CU': heavy(cu, heavyFrom, lastFrom), 'heavy, tps': heavy(tps, heavyFrom, lastFrom) },
  [
    { what: 'seconds until it has 2 CU or more', value: grew < 0 ? Infinity : grew - heavyFrom, most: 2, unit: ' s' },
    { what: 'CU at the end', value: cu.at(-1) ?? 0, most: 1, unit: '' },
    { what: 'failed transactions', value: failures, most: 0, unit: '' },
  ],
  'CU; transactions per second',
)
