import type pg from 'pg'
import { catalogQuery } from '../admin.ts'
import { type Random, randomOf } from '../random.ts'
import { enter, flawOf, holdings, someMove, transfer } from './data.ts'
import { pause, type Spot, type World, type Writer } from './world.ts'

/** After this much inactivity a session may find that its compute was suspended, even at its next statement. */
const MAY_SLEEP_MS = 800

/** Adds a writer to a branch, which writes until the run or the branch ends. */
export async function write(world: World, spot: Spot, name: string): Promise<void> {
  const writer: Writer = { name, attempted: 0, acknowledged: 0 }
  spot.writers.push(writer)
  const random = randomOf(world.seed, name)
  while (!world.stopping.aborted && !spot.leaving) {
    const pooled = random.chance(0.5)
    const client = await enter(world, spot, () => {}, { pooled })
    if (!client) return
    const over = session(world, random, spot, writer, client, pooled)
    if (pooled) spot.pooled.add(over)
    await over
    spot.pooled.delete(over)
    await client.end().catch(() => {})
    // Pauses are sometimes long enough for the compute to be suspended.
    await pause(random.chance(0.4) ? random.between(1_000, 4_000) : random.between(0, 200))
  }
}

async function session(
  world: World,
  random: Random,
  spot: Spot,
  writer: Writer,
  client: pg.Client,
  pooled: boolean,
): Promise<void> {
  const { checks, history, latencies } = world
  let quietSince = Date.now()
  let since = Date.now()
  let inTransaction = false
  try {
    if (!(await verify(world, spot, writer, client))) return
    for (let turn = random.between(1, 30); turn > 0 && !world.stopping.aborted && !spot.leaving; turn--) {
      quietSince = Date.now()
      if (random.chance(0.1)) await pause(random.between(0, 2_500))
      since = Date.now()
      inTransaction = true
      writer.attempted = writer.acknowledged + 1
      await transfer(client, writer.name, writer.attempted, spot.branch_id, someMove(random))
      if (since - quietSince < MAY_SLEEP_MS) latencies.note('transaction', since)
      // Longer than the suspend timeout: an open transaction keeps its compute awake.
      if (random.chance(0.05)) await pause(random.between(500, 3_000))
      await client.query('commit')
      writer.acknowledged = writer.attempted
      inTransaction = false
    }
    checks.record('undisturbed', undefined)
  } catch (error) {
    // Pooled sessions do not notice a suspend.
    const slept = !pooled && since - quietSince >= MAY_SLEEP_MS
    const excused = spot.leaving || slept || history.excuse('sessions', quietSince, Date.now(), spot.branch_id)
    if (excused) return checks.record('undisturbed', undefined)
    const how = pooled ? 'pooled session' : 'session'
    const state = inTransaction ? 'in a transaction' : 'between transactions'
    const quiet = `${since - quietSince} ms of rest, then ${Date.now() - since} ms`
    await noteOperations(world, spot)
    checks.record('undisturbed', `a ${how} of ${spot.name} ${state} ended after ${quiet}: ${(error as Error).message}`)
  }
}

/**
 * Checks that all acknowledged entries are there, and continues after the last one found: the acknowledgement of one
 * commit may have been lost.
 */
async function verify(world: World, spot: Spot, writer: Writer, client: pg.Client): Promise<boolean> {
  const found = await holdings(client, spot.branch_id)
  const flaw = flawOf(found)
  const last = found.sequences.find((sequence) => sequence.writer === writer.name)?.last ?? 0
  const lost = last < writer.acknowledged && `${writer.name} was told of ${writer.acknowledged} and finds ${last}`
  const invented = last > writer.attempted && `${writer.name} tried ${writer.attempted} and finds ${last}`
  world.checks.record('balanced', flaw.balanced && `${spot.name}: ${flaw.balanced}`)
  world.checks.record('durable', flaw.durable ?? (lost || invented))
  const inherited = spot.inherited !== undefined && spot.inherited !== found.inherited
  world.checks.record('isolated', inherited && `${spot.name}: what it got from its parent has changed`)
  writer.acknowledged = last
  return !lost
}

/** Records the latest operations of a branch in the history. */
async function noteOperations({ neap, history }: World, { branch_id, name }: Spot): Promise<void> {
  const rows = await catalogQuery<{ line: string }>(
    neap,
    `select concat_ws(' ', action, input, status, step, to_char(created_at, 'SS.MS'), to_char(started_at, 'SS.MS'),
                      to_char(finished_at, 'SS.MS'), error) as line
       from operation where branch_id = $1 order by seq desc limit 6`,
    [branch_id],
  ).catch(() => [])
  const now = new Date().toISOString().slice(17, 23)
  for (const { line } of rows.toReversed()) history.note(`at ${now}, ${name}: ${line}`)
}
