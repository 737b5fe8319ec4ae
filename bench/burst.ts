/* Latency of 200 concurrent connects to a suspended endpoint, against the same to a running one. */
import pg from 'pg'
import { firstPlace, suspend } from '../test/project.ts'
import { clientConfig, neapTarget, startForLoad } from './load/targets.ts'
import { percentile, report } from './samples.ts'

const [rounds = 5, clients = 200] = process.argv.slice(2).map(Number)

const milliseconds: Record<'running' | 'suspended', number[]> = { running: [], suspended: [] }
const refused: string[] = []
const neap = await startForLoad()
try {
  const place = await firstPlace(neap)
  const config = clientConfig(neapTarget(neap))
  await firstRow(config)
  for (let round = -1; round < rounds; round++) {
    for (const state of ['running', 'suspended'] as const) {
      if (state === 'suspended') await suspend(neap, place)
      const burst = await Promise.allSettled(Array.from({ length: clients }, () => firstRow(config)))
      // The first round is a warm-up.
      if (round < 0) continue
      for (const one of burst) {
        if (one.status === 'fulfilled') milliseconds[state].push(one.value)
        else refused.push(String(one.reason))
      }
    }
  }
} finally {
  await neap.stop()
}

async function firstRow(config: pg.ClientConfig): Promise<number> {
  const begun = performance.now()
  const client = new pg.Client(config)
  try {
    await client.connect()
    await client.query('select 1')
    return performance.now() - begun
  } finally {
    await client.end()
  }
}

for (const why of new Set(refused)) console.error(why)
const p99 = (state: 'running' | 'suspended') => percentile(milliseconds[state], 0.99)
report(
  'burst',
  [
    `${clients} clients of one process begin at once; ` +
      `each waits for a new TCP connection, TLS 1.3, SCRAM and the first row of \`select 1\``,
    `running: the compute runs; suspended: it sleeps; in turn, ${rounds} rounds each, in one run; ` +
      'the first round is left out',
  ],
  milliseconds,
  [
    { what: 'refused', value: refused.length, most: 0, unit: '' },
    { what: 'p99 / p99 of running', value: p99('suspended') / p99('running'), most: 1.1, unit: '×' },
  ],
)
