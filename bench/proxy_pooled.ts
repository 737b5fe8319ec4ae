/*
 * The proxy's cost per query on the pooled host, with few and many clients, against PgBouncer in transaction mode: CPU
 * time and throughput.
 */
import type { QueryMode } from './load/pgbench.ts'
import { marksOf, measureCosts, METHOD, rowsOf } from './load/proxy_cost.ts'
import { need, withTargets } from './load/targets.ts'
import { type Mark, report } from './samples.ts'

/** Debian's PgBouncer does not support prepared statements in this mode. */
const MODES: readonly QueryMode[] = ['simple', 'extended']
/** PgBouncer's default. */
const POOL_SIZE = 20
const [roundsOfFew = 15, roundsOfMany = 5] = process.argv.slice(2).map(Number)
const CROWDS = [
  { clients: 8, rounds: roundsOfFew, marks: { mostCpu: 1.6, leastTps: 0.85 } },
  { clients: 500, rounds: roundsOfMany, marks: { leastTps: 0.9 } },
]

need('pgbench', 'pgbouncer')
const rows: Record<string, readonly number[]> = {}
const marks: Mark[] = []
await withTargets({ mode: 'transaction', poolSize: POOL_SIZE }, async ({ neap, pgbouncer }, dir) => {
  for (const { clients, rounds, marks: asked } of CROWDS) {
    for (const mode of MODES) {
      if (rounds === 0) continue
      const costs = await measureCosts({ neap, pgbouncer }, { clients, mode, rounds }, dir)
      Object.assign(rows, rowsOf(`${clients}, ${mode}`, costs))
      marks.push(...marksOf(`${clients} clients, ${mode}`, costs, asked))
    }
  }
})

report(
  'proxy_pooled',
  [
    ...METHOD,
    CROWDS.map(({ clients, rounds }) => `${clients} clients, ${rounds} rounds`).join('; '),
    'neap:      through the proxy, pooled host, to the Unix socket of a compute',
    `pgbouncer: transaction mode, ${POOL_SIZE} server connections, ` +
      'TLS by a certificate of the same kind (ECDSA P-256), SCRAM, to the Unix socket of a Postgres of the same build',
  ],
  rows,
  marks,
  'µs per query; queries per second',
)
