import assert from 'node:assert/strict'
import { availableParallelism, totalmem } from 'node:os'
import { after, before, test } from 'node:test'
import { MIB_PER_CU } from '../../src/size.ts'
import { connect, query } from '../clients.ts'
import { memoryLimit } from '../control_groups.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { branchOff, computeIdOf, endpointOf, firstPlace, type Place, resize, settled, suspend } from '../project.ts'

/* The room of a host: what the sizes of its computes may sum up to. */

const CAPACITY = 3
let neap: Neap
let root: Place

before(async () => {
  const machine = Math.min(availableParallelism(), totalmem() / (MIB_PER_CU * 2 ** 20))
  // A little more than that, rounded down to a quarter.
  neap = await startNeap({ env: { NEAP_OVERCOMMIT: ((CAPACITY + 0.1) / machine).toFixed(3) } })
  root = await firstPlace(neap)
  await query(neap, root.uri, 'select 1')
  await suspend(neap, root)
})

after(() => neap?.stop())

/** Makes a branch with an endpoint of this size, asleep. */
async function asleep(min: number, max = min): Promise<Place> {
  const made = await branchOff(neap, root, { min, max })
  if ((await endpointOf(neap, made)).current_state === 'active') await suspend(neap, made)
  return made
}

interface Room {
  capacity_cu: number
  used_cu: number
}

async function host(): Promise<Room> {
  const { stdout } = await neapRun(['status', '--json'], envOf(neap.ready.data_dir))
  const { hosts } = JSON.parse(stdout) as { hosts: Room[] }
  return hosts[0] as Room
}

/** The newest operation of an endpoint. */
const lastOperation = async ({ endpoint_id }: Place) =>
  (
    await neap.call('GET /projects/:project_id/operations', {
      params: { project_id: root.project_id },
      query: { endpoint_id, limit: 1 },
    })
  ).operations[0]

/** Resizes an endpoint, and returns it as it is then. */
async function resized(at: Place, min: number) {
  await neap.ended(await resize(neap, at, { min }))
  return await endpointOf(neap, at)
}

test('a start waits for room, says so, and goes on as soon as there is some', async () => {
  const [first, second] = [await asleep(2), await asleep(2)]
  await query(neap, first.uri, 'select 1')
  assert.equal((await host()).capacity_cu, CAPACITY)
  await until('its room is counted', async () => (await host()).used_cu >= 2)
  const waiting = query(neap, second.uri, 'select 1 as one')
  const waits = await until('it waits', async () => (await lastOperation(second))?.wait_reason)
  assert.equal(waits, 'its host has no room for 2 CU')
  // A smaller one that fits passes it.
  const small = await asleep(0.25)
  await query(neap, small.uri, 'select 1')
  await suspend(neap, first)
  assert.deepEqual(await waiting, [{ one: 1 }])
  for (const place of [second, small]) await suspend(neap, place)
  assert.equal((await host()).used_cu, 0)
})

test('a start that never gets room fails, and says what to do', async () => {
  const [first, second, large] = [await asleep(3), await asleep(1), await asleep(2)]
  await resized(large, 4)
  await assert.rejects(query(neap, large.uri, 'select 1'), {
    detail: 'its host has room for 3 CU in all, and it needs 4: choose a smaller size',
  })
  await query(neap, first.uri, 'select 1')
  await assert.rejects(query(neap, second.uri, 'select 1'), {
    detail: /had no room for 1 CU within 30 s: suspend another/,
  })
  await suspend(neap, first)
  await query(neap, second.uri, 'select 1')
  await suspend(neap, second)
})

test('a compute that is to be larger than there is room gets what there is, says so, and later the rest', async () => {
  const [other, place] = [await asleep(1), await asleep(0.5)]
  for (const { uri } of [other, place]) await query(neap, uri, 'select 1')
  // A client may be served before its endpoint is active; a compute that still starts is resized later.
  for (const each of [other, place]) await settled(neap, each, 'active')
  await until('both have room', async () => (await host()).used_cu === 1.5)
  assert.deepEqual(size(await resized(place, 3)), [2, 3])
  assert.deepEqual(size(await endpointOf(neap, place)), [2, 3])
  await suspend(neap, other)
  await until('it has the rest', async () => size(await endpointOf(neap, place))[0] === 3)
  assert.deepEqual(size(await endpointOf(neap, place)), [3, undefined])
  const id = await computeIdOf(neap, place)
  await until('the kernel has its memory limit', () => memoryLimit(neap.ready.data_dir, id) === 3 * 4 * 2 ** 30)
  assert.deepEqual(size(await resized(place, 0.5)), [0.5, undefined])
  await suspend(neap, place)
})

const size = ({ current_cu, wanted_cu }: { current_cu?: number; wanted_cu?: number }) => [current_cu, wanted_cu]

test('an endpoint that autoscales grows to the room that there is', async () => {
  const [other, scaled] = [await asleep(1.5), await asleep(1, 6)]
  for (const { uri } of [other, scaled]) await query(neap, uri, 'select 1')
  const clients = await Promise.all(Array.from({ length: 6 }, () => connect(neap, scaled.uri)))
  const busy = clients.map((client) =>
    client.query(`do $$ declare n bigint := 0; begin loop n := n + 1; end loop; end $$`).catch(() => undefined),
  )
  await until('it has all there is', async () => (await endpointOf(neap, scaled)).current_cu === 1.5)
  assert.ok(((await endpointOf(neap, scaled)).wanted_cu ?? 0) > 1.5)
  await suspend(neap, other)
  await until('it has the rest', async () => (await endpointOf(neap, scaled)).current_cu === 3)
  await query(neap, scaled.uri, `select pg_terminate_backend(pid) from pg_stat_activity where query like 'do %'`)
  await Promise.all(busy)
  await until('it is small again', async () => size(await endpointOf(neap, scaled)).join() === '1,')
  await suspend(neap, scaled)
})

test('a killed worker loses and doubles no room', async () => {
  const [first, second] = [await asleep(2), await asleep(1)]
  for (const { uri } of [first, second]) await query(neap, uri, 'select 1')
  await kill(neap.part('worker'))
  await until('the room is counted', async () => (await host()).used_cu === 3)
  await suspend(neap, first)
  await until('the room is free', async () => (await host()).used_cu === 1)
  await suspend(neap, second)
  assert.equal((await host()).used_cu, 0)
})
