/* The cost of a query for the programs under test: CPU time and throughput. */
import { readdirSync, readFileSync } from 'node:fs'
import { type Mark, percentile } from '../samples.ts'
import { type QueryMode, startPgbench } from './pgbench.ts'
import type { ProxyTarget } from './targets.ts'

/** The samples of one program, in the order of rounds. */
export interface Cost {
  /** CPU-microseconds per query of all its processes. */
  readonly cpu: number[]
  readonly tps: number[]
}

export interface Load {
  readonly clients: number
  readonly mode: QueryMode
  readonly rounds: number
}

/**
 * After this number of rounds all clients reconnect, because the assignment of clients to a program's processes is
 * random.
 */
const ROUNDS_OF_A_CROWD = 5

/**
 * Measures each program under test in turn under the same load, in rounds of a second. The first round after each
 * reconnect is a warm-up.
 */
export async function measureCosts<Name extends string>(
  programs: Readonly<Record<Name, ProxyTarget>>,
  { clients, mode, rounds }: Load,
  dir: string,
): Promise<Record<Name, Cost>> {
  const entries = Object.entries<ProxyTarget>(programs) as [Name, ProxyTarget][]
  const costs = Object.fromEntries(entries.map(([name]) => [name, { cpu: [], tps: [] }])) as unknown as Record<
    Name,
    Cost
  >
  for (let measured = 0; measured < rounds; measured += ROUNDS_OF_A_CROWD) {
    const crowds = []
    try {
      for (const [name, target] of entries)
        crowds.push({ name, target, pgbench: await startPgbench(dir, target, mode, clients) })
      for (let round = -1; round < Math.min(ROUNDS_OF_A_CROWD, rounds - measured); round++) {
        for (const { name, target, pgbench } of crowds) {
          const { before, after, queries, tps } = await pgbench.round(() => cpuMicroseconds(target.pids()))
          if (round < 0) continue
          costs[name].cpu.push((after - before) / queries)
          costs[name].tps.push(tps)
        }
      }
    } finally {
      for (const { pgbench } of crowds) await pgbench.end()
    }
  }
  return costs
}

/** CPU time of processes, with all their threads (Linux, Documentation/scheduler/sched-stats.rst). */
function cpuMicroseconds(pids: readonly number[]): number {
  const threads = pids.flatMap((pid) => readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}`))
  return threads.reduce((sum, path) => sum + Number(readFileSync(`${path}/schedstat`, 'utf8').split(' ')[0]) / 1_000, 0)
}

/** The method common to the benchmarks of the proxy. */
export const METHOD = [
  'clients of pgbench, in two threads, each send `select 1` when the last is answered, over TLS 1.3; ' +
    'rounds of a second, in turn, in one run',
  'cpu:       microseconds per query of all processes of the proxy (schedstat); ' +
    'tps: queries per second, while all share the machine',
  'each program has a session of its own, so that autogroups treat them alike; connecting is left out',
]

/** The rows of a report. @param what prefix of their names */
export const rowsOf = (what: string, costs: Record<string, Cost>): Record<string, readonly number[]> =>
  Object.fromEntries(
    Object.entries(costs).flatMap(([name, { cpu, tps }]) => [
      [`${what}, ${name}, cpu`, cpu],
      [`${what}, ${name}, tps`, tps],
    ]),
  )

/**
 * CPU time as the 25th percentile of the rounds, which other load on the machine disturbs least; throughput as the
 * median.
 */
export function marksOf(
  what: string,
  { neap, pgbouncer }: Record<'neap' | 'pgbouncer', Cost>,
  { mostCpu, leastTps }: { readonly mostCpu?: number; readonly leastTps: number },
): Mark[] {
  const [cpu, tps] = [percentile(neap.cpu, 0.25), percentile(neap.tps, 0.5)]
  const [itsCpu, itsTps] = [percentile(pgbouncer.cpu, 0.25), percentile(pgbouncer.tps, 0.5)]
  const compared = `${what}: cpu p25 ${cpu.toFixed(1)} / ${itsCpu.toFixed(1)} µs, neap / pgbouncer`
  return [
    ...(mostCpu === undefined ? [] : [{ what: compared, value: cpu / itsCpu, most: mostCpu, unit: '×' }]),
    { what: `${what}: tps p50, neap / pgbouncer`, value: tps / itsTps, least: leastTps, unit: '×' },
  ]
}
