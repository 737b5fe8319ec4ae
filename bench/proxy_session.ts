/* The proxy's cost per query on the direct host, against PgBouncer in session mode: CPU time and throughput. */
import type { QueryMode } from './load/pgbench.ts'
import { marksOf, measureCosts, METHOD, rowsOf } from './load/proxy_cost.ts'
import { need, withTargets } from './load/targets.ts'
import { type Mark, report } from './samples.ts'

const CLIENTS = 8
const MODES: readonly QueryMode[] = ['simple', 'prepared']
const rounds = Number(process.argv[2] ?? 15)

need('pgbench', 'pgbouncer')
const rows: Record<string, readonly number[]> = {}
const marks: Mark[] = []
await withTargets({ mode: 'session', poolSize: CLIENTS * 2 }, async ({ neap, pgbouncer }, dir) => {
  for (const mode of MODES) {
    const costs = await measureCosts({ neap, pgbouncer }, { clients: CLIENTS, mode, rounds }, dir)
    Object.assign(rows, rowsOf(mode, costs))
    marks.push(...marksOf(mode, costs, { mostCpu: 1.45, leastTps: 0.9 }))
  }
})

report(
  'proxy_session',
  [
    ...METHOD,
    `${CLIENTS} clients, ${rounds} rounds`,
    'neap:      through the proxy, direct host, to the Unix socket of a compute',
    'pgbouncer: session mode, TLS by a certificate of the same kind (ECDSA P-256), SCRAM, ' +
      'to the Unix socket of a Postgres of the same build',
  ],
  rows,
  marks,
  'µs per query; queries per second',
)
