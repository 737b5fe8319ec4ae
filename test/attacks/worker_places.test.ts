import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { superuser } from '../admin.ts'
import { query } from '../clients.ts'
import { codeIn } from '../code_in_compute.ts'
import { type Neap, startNeap } from '../neap.ts'
import { kill } from '../processes.ts'
import { branchOff, computeOf, firstPlace, operationsOf, type Place, suspend } from '../project.ts'

/*
 * A tenant makes steps wait (stops blocked by sessions, copies of large parents) in as many endpoints as the worker has
 * places, to prevent the wakes of others.
 */

const SLOTS = 2

let neap: Neap
let first: Place
const frozen: number[] = []

before(async () => {
  neap = await startNeap({ env: { NEAP_WORKER_CONCURRENCY: String(SLOTS) } })
  first = await firstPlace(neap)
  await query(neap, first.uri, 'select 1')
})
after(async () => {
  await kill(...frozen)
  await neap?.stop()
})

/** A compute with a session that does not end, because its process is stopped. */
async function frozenPlace(): Promise<Place> {
  const place = await branchOff(neap, first)
  await query(neap, place.uri, 'select 1')
  const victim = await superuser(neap, place)
  const { rows } = await victim.query<{ pid: number }>('select pg_backend_pid() as pid')
  const { session, shell } = await codeIn(neap, place)
  await shell(`kill -STOP ${rows[0]?.pid}`)
  await session.end()
  frozen.push((await computeOf(neap, place))?.pid ?? 0)
  return place
}

test('stops that hang leave slots for the wakes of other endpoints', async () => {
  const other = await branchOff(neap, first)
  await query(neap, other.uri, 'select 1')
  await suspend(neap, other)
  const began = performance.now()
  await query(neap, other.uri, 'select 1')
  const usualMs = performance.now() - began
  await suspend(neap, other)
  for (let made = 0; made < SLOTS; made++) {
    const { project_id, endpoint_id } = await frozenPlace()
    const path = 'POST /projects/:project_id/endpoints/:endpoint_id/suspend'
    await neap.call(path, { params: { project_id, endpoint_id } })
  }
  const wake = query(neap, other.uri, 'select 1').then(
    () => 'woken',
    () => 'refused',
  )
  const outcome = await Promise.race([wake, sleep(usualMs * 20 + 5_000, 'still asleep')])
  const stops = (await operationsOf(neap, first)).filter(({ action }) => action === 'suspend_compute')
  // Killing the computes lets the stops end, and with them the test.
  await kill(...frozen)
  await wake
  assert.equal(outcome, 'woken', JSON.stringify(stops.slice(0, SLOTS)))
})
