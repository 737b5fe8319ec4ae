/* How many queries a second pass through pooled hosts, of few clients and of many, against PgBouncer in transaction mode. */
import { makePgbench, type QueryMode } from './load/pgbench.ts'
import { withTargets } from './load/targets.ts'
import { percentile, report } from './samples.ts'

/** How many clients, for how long, which includes their connecting, and what share of PgBouncer's throughput there must be. */
const CROWDS = [
  { clients: 8, seconds: 1, least: 1 },
  { clients: 500, seconds: 15, least: 0.9 },
] as const
const COMPARED: readonly QueryMode[] = ['simple', 'extended']
/** PgBouncer's own default. */
const POOL_SIZE = 20
const rounds = Number(process.argv[2] ?? 3)

const tps: Record<string, number[]> = {}
await withTargets({ mode: 'transaction', poolSize: POOL_SIZE }, async ({ neap, pgbouncer }, dir) => {
  const pgbench = makePgbench(dir)
  for (let round = -1; round < rounds; round++) {
    for (const { clients, seconds } of CROWDS) {
      for (const mode of [...COMPARED, 'prepared'] as const) {
        for (const [name, target] of Object.entries({ neap, pgbouncer })) {
          // Debian's PgBouncer has no prepared statements in this mode.
          if (mode === 'prepared' && name !== 'neap') continue
          const measured = await pgbench(target, mode, clients, seconds)
          // The first round warms the code.
          if (round >= 0) (tps[`${clients}, ${mode}, ${name}`] ??= []).push(measured)
        }
      }
    }
  }
})

const median = (...of: readonly (string | number)[]) => percentile(tps[of.join(', ')] ?? [], 0.5)
report(
  'proxy_pooled',
  [
    `clients of pgbench, in two threads, each sending \`select 1\` when the last is answered, over TLS 1.3, by each kind of query messages`,
    `${rounds} rounds of ${CROWDS.map(({ clients, seconds }) => `${seconds} s for ${clients}`).join(' and ')}, in turn, in one run; connecting is left out; all share the machine`,
    'neap:      through the proxy, pooled host, to the Unix socket of a compute',
    `pgbouncer: transaction mode, ${POOL_SIZE} server connections, TLS by a certificate of the same kind (ECDSA P-256), SCRAM, to the Unix socket of a Postgres of the same build`,
  ],
  tps,
  CROWDS.flatMap(({ clients, least }) =>
    COMPARED.map((mode) => ({
      what: `${clients} clients, ${mode}, neap / pgbouncer, medians`,
      value: median(clients, mode, 'neap') / median(clients, mode, 'pgbouncer'),
      least,
      unit: '×',
    })),
  ),
  'transactions per second',
)
