/*
 * Throughput of copying a gigabyte out of and into a database through the proxy, against PgBouncer and against a
 * Postgres with TLS.
 */
import { run } from '../test/neap.ts'
import { libpqEnv, need, type Target, withTargets } from './load/targets.ts'
import { percentile, report } from './samples.ts'

const [rounds = 5, megabytes = 1024] = process.argv.slice(2).map(Number)
/** 1 KiB with its line end. */
const ROW = 'x'.repeat(1023)
const ROWS = megabytes * 1024
const COMMANDS = {
  out: `\\copy (select '${ROW}' from generate_series(1, ${ROWS})) to '/dev/null'`,
  // Every row is parsed and discarded, so that disk speed does not matter.
  in: `\\copy pg_temp.t from program 'yes ${ROW} | head -n ${ROWS}' where false`,
} as const
const WAYS = ['out', 'in'] as const

const perSecond: Record<string, number[]> = {}
need('psql', 'pgbouncer')
await withTargets({ mode: 'session', poolSize: 4 }, async (targets) => {
  for (let round = 0; round < rounds; round++) {
    for (const way of WAYS) {
      for (const [name, target] of Object.entries(targets)) {
        ;(perSecond[`${way}, ${name}`] ??= []).push(await copy(target, COMMANDS[way]))
      }
    }
  }
})

/** Megabytes per second, from the start of psql to its end. */
async function copy(target: Target, command: string): Promise<number> {
  const begun = performance.now()
  const args = ['-Xq', '-v', 'ON_ERROR_STOP=1', '-c', 'create temp table t (t text)', '-c', command]
  const { code, stderr } = await run('psql', args, libpqEnv(target))
  if (code !== 0) throw new Error(`psql failed: ${stderr}`)
  return megabytes / ((performance.now() - begun) / 1000)
}

const median = (way: string, name: string) => percentile(perSecond[`${way}, ${name}`] ?? [], 0.5)
report(
  'proxy_bulk',
  [
    `${megabytes} MiB in rows of 1 KiB by COPY, psql over TLS 1.3, from its start to its end; ` +
      `${rounds} rounds, in turn, in one run`,
    'out: of a query, thrown away by psql; ' +
      'in: from a pipe, each row read by Postgres and dropped by WHERE, so that no disk has a say',
    'neap:      through the proxy, direct host, to the Unix socket of a compute',
    'pgbouncer: session mode, TLS by a certificate of the same kind, ' +
      'to the Unix socket of a Postgres of the same build',
    'direct:    TLS straight at that Postgres',
  ],
  perSecond,
  WAYS.map((way) => ({
    what: `${way}, neap / direct, medians`,
    value: median(way, 'neap') / median(way, 'direct'),
    least: 0.9,
    unit: '×',
  })),
  'MiB per second',
)
