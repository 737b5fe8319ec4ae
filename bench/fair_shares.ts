/* What a compute at its limit costs another one, where the sizes of both exceed the machine. */
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, query } from '../test/clients.ts'
import { startNeap } from '../test/neap.ts'
import { branchOff, firstPlace, type Place, resize } from '../test/project.ts'
import { percentile, report } from './samples.ts'

const [rounds = 6, seconds = 5] = process.argv.slice(2).map(Number)
const LARGEST = 7
const BUSY_SESSIONS = 16
/** Between two queries: the compute that is measured uses about a tenth of a CPU. */
const PAUSE_MS = 10
const QUERY = 'select count(*) from generate_series(1, 5000)'
const BUSY = 'do $$ declare n bigint := 0; begin loop n := n + 1; end loop; end $$'

const alone: number[] = []
const beside: number[] = []
const neap = await startNeap()
try {
  const place = await firstPlace(neap)
  const neighbour = await branchOff(neap, place)
  for (const each of [place, neighbour]) await query(neap, each.uri, 'select 1')
  await neap.ended(await resize(neap, place, { min: 1 }))
  await neap.ended(await resize(neap, neighbour, { min: LARGEST }))
  const client = await connect(neap, place.uri)
  for (let round = 0; round <= rounds; round++)
    for (const samples of round % 2 === 0 ? [alone, beside] : [beside, alone]) {
      const stop = samples === beside ? await occupy(neighbour) : async () => undefined
      const until = performance.now() + seconds * 1000
      while (performance.now() < until) {
        const begun = performance.now()
        await client.query(QUERY)
        // The first round warms the code.
        if (round > 0) samples.push(performance.now() - begun)
        await sleep(PAUSE_MS)
      }
      await stop()
    }
  await client.end()
} finally {
  await neap.stop()
}

/** Brings a compute to its limit, until the returned function is called. */
async function occupy({ uri }: Place): Promise<() => Promise<void>> {
  const clients = await Promise.all(Array.from({ length: BUSY_SESSIONS }, () => connect(neap, uri)))
  const ended = clients.map((each) => each.query(BUSY).catch(() => undefined))
  await sleep(500)
  return async () => {
    await query(neap, uri, `select pg_terminate_backend(pid) from pg_stat_activity where query like 'do %'`)
    await Promise.all(ended)
  }
}

report(
  'fair_shares',
  [
    `a query every ${PAUSE_MS} ms through the proxy to an endpoint of 1 CU; alone: nothing else runs; ` +
      `beside: another endpoint of ${LARGEST} CU has ${BUSY_SESSIONS} busy sessions`,
    'in turn, in one run',
  ],
  { alone, beside },
  [
    {
      what: 'p95 beside / alone',
      value: percentile(beside, 0.95) / percentile(alone, 0.95),
      most: 1.2,
      unit: '×',
    },
  ],
)
