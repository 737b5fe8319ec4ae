/* How many queries a second pass through the proxy, against PgBouncer in session mode and against a Postgres with TLS. */
import { makePgbench, type QueryMode } from './load/pgbench.ts'
import { withTargets } from './load/targets.ts'
import { percentile, report } from './samples.ts'

const CLIENTS = 8
const MODES: readonly QueryMode[] = ['simple', 'extended', 'prepared']
const [rounds = 15, seconds = 1] = process.argv.slice(2).map(Number)

const tps: Record<string, number[]> = {}
await withTargets({ mode: 'session', poolSize: CLIENTS * 2 }, async (targets, dir) => {
  const pgbench = makePgbench(dir)
  for (let round = -1; round < rounds; round++) {
    for (const mode of MODES) {
      for (const [name, target] of Object.entries(targets)) {
        const measured = await pgbench(target, mode, CLIENTS, seconds)
        // The first round warms the code.
        if (round >= 0) (tps[`${mode}, ${name}`] ??= []).push(measured)
      }
    }
  }
})

const median = (mode: QueryMode, name: string) => percentile(tps[`${mode}, ${name}`] ?? [], 0.5)
report(
  'proxy_session',
  [
    `${CLIENTS} clients of pgbench, in two threads, each sending \`select 1\` when the last is answered, over TLS 1.3, by each kind of query messages`,
    `${rounds} rounds of ${seconds} s each, in turn, in one run; connecting is left out; all share the machine`,
    'neap:      through the proxy, direct host, to the Unix socket of a compute',
    'pgbouncer: session mode, TLS by a certificate of the same kind (ECDSA P-256), SCRAM, to the Unix socket of a Postgres of the same build',
    'direct:    TLS straight at that Postgres',
  ],
  tps,
  MODES.flatMap((mode) => [
    {
      what: `${mode}, neap / pgbouncer, medians`,
      value: median(mode, 'neap') / median(mode, 'pgbouncer'),
      least: 1,
      unit: '×',
    },
  ]),
  'transactions per second',
)
