/* The time from a request to resize a running compute under load until the kernel enforces it, and dropped sessions. */
import { setImmediate as turn } from 'node:timers/promises'
import { connect } from '../test/clients.ts'
import { cpuQuota } from '../test/control_groups.ts'
import { startNeap } from '../test/neap.ts'
import { computeIdOf, firstPlace, type Place, resize } from '../test/project.ts'
import { percentile, report } from './samples.ts'

const [rounds = 40] = process.argv.slice(2).map(Number)
const CLIENTS = 8
const SIZES = [1, 2]

const enforced: number[] = []
const answered: number[] = []
let queries = 0
let dropped = 0
const neap = await startNeap()
try {
  const place = await firstPlace(neap)
  const { stop } = await load(place)
  const id = await computeIdOf(neap, place)
  for (let round = 0; round <= rounds; round++) {
    const cu = SIZES[round % SIZES.length] as number
    const begun = performance.now()
    const asked = resize(neap, place, { min: cu }).then((operations) => ({ operations, ms: performance.now() - begun }))
    while (cpuQuota(neap.ready.data_dir, id) !== cu * 100_000) await turn()
    const ms = performance.now() - begun
    const answer = await asked
    await neap.ended(answer.operations)
    // The first one warms the code.
    if (round === 0) continue
    enforced.push(ms)
    answered.push(answer.ms)
  }
  await stop()
} finally {
  await neap.stop()
}

/** Keeps sessions busy through the proxy; counts those that end before they should. */
async function load({ uri }: Place): Promise<{ stop: () => Promise<void> }> {
  let goesOn = true
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => connect(neap, uri)))
  const loops = clients.map(async (client) => {
    try {
      while (goesOn) {
        await client.query('select count(*) from generate_series(1, 5000)')
        queries++
      }
      await client.end()
    } catch {
      dropped++
    }
  })
  return {
    async stop() {
      goesOn = false
      await Promise.all(loops)
    },
  }
}

report(
  'resize',
  [
    `PATCH of an endpoint of 1 CU to 2 CU, and back; ${CLIENTS} sessions through the proxy ran ${queries} queries`,
    'enforced: until the quota in its control group is the new one; answered: until the API has answered',
  ],
  { enforced, answered },
  [
    { what: 'enforced, p95', value: percentile(enforced, 0.95), most: 250, unit: ' ms' },
    { what: 'sessions dropped', value: dropped, most: 0, unit: '' },
  ],
)
