/*
 * The time from a client at a suspended endpoint to 90 % of the throughput that its compute reaches warm: with the
 * blocks of its last run read ahead and without, while the page cache has its files and while it has not.
 *
 *   bench/prewarm.ts [ROUNDS] [CU] [SCALE]        as root; pgbench is needed; reading ahead is for 1 CU and more
 */
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { query } from '../test/clients.ts'
import { startNeap } from '../test/neap.ts'
import { firstPlace, type Place, resize, settled, suspend } from '../test/project.ts'
import { libpqEnv, neapTarget } from './load/targets.ts'
import { percentile, report } from './samples.ts'

const [rounds = 2, cu = 1, scale = 40] = process.argv.slice(2).map(Number)
const SECONDS = 10
const CLIENTS = 2
/** The width of the windows in which transactions are counted, in milliseconds. */
const WINDOW_MS = 250
const PER_SECOND = 1000 / WINDOW_MS
/** Of the transactions that are counted. */
const SAMPLED = 0.2
const WARM_SHARE = 0.9

const dir = mkdtempSync(join(tmpdir(), 'neap-bench-'))
/** The transactions in each window of each run. */
const runs: Record<string, number[][]> = {}
const neap = await startNeap()
let megabytes = 0
try {
  const place = await firstPlace(neap)
  await neap.ended(await resize(neap, place, { min: cu }))
  await pgbench(['-i', '-s', String(scale), '--quiet'])
  megabytes = await sizeOf(place)
  // Fills the buffers, whose blocks the stop lists.
  await suspend(neap, place)
  await run(place)
  for (let round = 0; round < rounds; round++)
    for (const cache of ['cached', 'dropped'])
      for (const ahead of ['not ahead', 'ahead']) {
        await suspend(neap, place)
        const home = join(neap.ready.data_dir, 'branches', place.branch_id)
        // A start reads ahead what is listed if the machine was restarted since the last one.
        utimesSync(join(home, 'server'), 0, 0)
        if (ahead === 'not ahead') rmSync(join(home, 'pgdata/autoprewarm.blocks'))
        if (cache === 'dropped') dropCache(home)
        ;(runs[`${cache}, ${ahead}`] ??= []).push(await run(place))
      }
} finally {
  await neap.stop()
  rmSync(dir, { recursive: true })
}

async function sizeOf({ uri }: Place): Promise<number> {
  const [size] = await query<{ mb: number }>(
    neap,
    uri,
    `select (pg_total_relation_size('pgbench_accounts') / 2 ^ 20)::int as mb`,
  )
  return size?.mb ?? 0
}

async function pgbench(args: readonly string[]): Promise<void> {
  await promisify(execFile)('pgbench', args, { env: libpqEnv(neapTarget(neap)), cwd: dir })
}

/** Wakes the endpoint by clients that only read. Returns the transactions of each window since they were begun. */
async function run(place: Place): Promise<number[]> {
  const begun = Date.now()
  const load = ['-S', '-n', '-M', 'prepared', '-c', String(CLIENTS), '-j', String(CLIENTS), '-T', String(SECONDS)]
  await pgbench([...load, '--log', '--log-prefix=tx', `--sampling-rate=${SAMPLED}`])
  await settled(neap, place, 'active')
  const counts: number[] = Array.from({ length: SECONDS * PER_SECOND }, () => 0)
  for (const name of readdirSync(dir)) {
    for (const line of readFileSync(join(dir, name), 'utf8').split('\n')) {
      const [, , , , seconds = 0, microseconds = 0] = line.split(' ').map(Number)
      const window = Math.floor((seconds * 1000 + microseconds / 1000 - begun) / WINDOW_MS)
      if (window in counts) counts[window] = (counts[window] ?? 0) + 1 / SAMPLED
    }
    rmSync(join(dir, name))
  }
  return counts
}

/** Removes the files of a branch at rest from the page cache. */
function dropCache(home: string): void {
  const drop = ['dd', 'if={}', 'iflag=nocache', 'count=0', 'status=none', ';']
  execFileSync('find', [join(home, 'pgdata'), '-type', 'f', '-exec', ...drop])
}

/** Milliseconds until a second with so many transactions begins; those of the whole run if there is none. */
function timeTo(counts: readonly number[], tps: number): number {
  const found = counts.findIndex((_, at) => {
    const second = counts.slice(at, at + PER_SECOND)
    return second.length === PER_SECOND && second.reduce((sum, count) => sum + count) >= tps
  })
  return found < 0 ? SECONDS * 1000 : found * WINDOW_MS
}

const last = (counts: readonly number[]): number[] => counts.slice(-3 * PER_SECOND)
const warmTps = percentile((runs['cached, ahead'] ?? []).flatMap(last), 0.5) * PER_SECOND
const rows = Object.fromEntries(
  Object.entries(runs).map(([name, each]) => [name, each.map((counts) => timeTo(counts, WARM_SHARE * warmTps))]),
)
const median = (name: string): number => percentile(rows[name] ?? [], 0.5)
for (const [name, each] of Object.entries(runs))
  console.log(`  ${name.padEnd(20)} transactions/s of each quarter second: ${curveOf(each)}`)

/** The medians of the first four seconds. */
function curveOf(each: readonly number[][]): string {
  const windows = Array.from({ length: 4 * PER_SECOND }, (_, at) => each.map((counts) => counts[at] ?? 0))
  return windows.map((counts) => Math.round(percentile(counts, 0.5) * PER_SECOND)).join(' ')
}

report(
  'prewarm',
  [
    `from the start of pgbench --select-only with ${CLIENTS} clients at a suspended endpoint of ${cu} CU to the first`,
    `second with ${WARM_SHARE * 100} % of its warm ${Math.round(warmTps)} transactions/s, of ${megabytes} MB of data`,
    `cached, dropped: the page cache has the files of the branch, or has not; ${SECONDS} s: not reached`,
    'ahead: the blocks that the last run had in its buffers are read ahead',
  ],
  rows,
  [
    {
      what: 'dropped: not ahead / ahead',
      value: median('dropped, not ahead') / median('dropped, ahead'),
      least: 1.5,
      unit: '×',
    },
  ],
)
