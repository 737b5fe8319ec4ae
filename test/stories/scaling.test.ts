import assert from 'node:assert/strict'
import { readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { groupParents } from '../../src/compute/process/cgroup.ts'
import { connect, query } from '../clients.ts'
import { cpuQuota, removeQuota } from '../control_groups.ts'
import { type Neap, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { branchOff, computeIdOf, endpointOf, firstPlace, type Place, suspend } from '../project.ts'

/* Sizes that are enforced, and autoscaling, as a user sees them. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
})

after(() => neap?.stop())

const scalings = async (of: Place) => {
  const { project_id, endpoint_id } = of
  const params = { project_id, endpoint_id }
  return (await neap.call('GET /projects/:project_id/endpoints/:endpoint_id/scaling', { params })).scaling
}

/** Keeps a session busy in SQL until it is cancelled. */
const BUSY = `do $$ declare n bigint := 0; begin loop n := n + 1; end loop; end $$`

test('an endpoint shows the size that its compute has, while it runs', async () => {
  await query(neap, place.uri, 'select 1')
  const { current_cu, limit_error } = await endpointOf(neap, place)
  assert.deepEqual([current_cu, limit_error], [0.25, undefined])
  await suspend(neap, place)
  assert.equal((await endpointOf(neap, place)).current_cu, undefined)
})

test('an endpoint of 1 to 5 CU grows to 4 for four busy sessions, and falls to 1 after them', async () => {
  const scaled = await branchOff(neap, place, { min: 1, max: 5 })
  const clients = await Promise.all(Array.from({ length: 4 }, () => connect(neap, scaled.uri)))
  assert.equal((await endpointOf(neap, scaled)).current_cu, 1)
  const busy = clients.map((client) => client.query(BUSY).catch(() => undefined))
  await until('it has 4 CU', async () => ((await endpointOf(neap, scaled)).current_cu ?? 0) >= 4)
  await query(neap, scaled.uri, `select pg_terminate_backend(pid) from pg_stat_activity where query like 'do %'`)
  await Promise.all(busy)
  await until('it has 1 CU again', async () => (await endpointOf(neap, scaled)).current_cu === 1)
  const changes = (await scalings(scaled)).toReversed()
  assert.equal(changes[0]?.reason, 'cpu')
  assert.equal(changes[0]?.from_cu, 1)
  assert.equal(changes.at(-1)?.reason, 'less_use')
  assert.equal(changes.at(-1)?.to_cu, 1)
})

test('sessions that wait for a lock do not count when an endpoint grows', async () => {
  const scaled = await branchOff(neap, place, { min: 1, max: 5 })
  const holder = await connect(neap, scaled.uri)
  for (const text of ['create table t (n int)', 'begin', 'lock table t']) await holder.query(text)
  const waiting = await Promise.all(Array.from({ length: 8 }, () => connect(neap, scaled.uri)))
  const asked = waiting.map((client) => client.query('select * from t'))
  const read = async () =>
    (await query(neap, scaled.uri, `select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock'`))[0]
  await until('all wait', async () => (await read())?.['n'] === 8)
  const busy = await Promise.all([connect(neap, scaled.uri), connect(neap, scaled.uri)])
  const counting = busy.map((client) => client.query(BUSY).catch(() => undefined))
  const [change] = await until('it has grown', async () => {
    const changes = await scalings(scaled)
    return changes.length > 0 && changes.toReversed()
  })
  // Two sessions wait for a CPU; eight wait for the lock.
  assert.ok(change && change.to_cu <= 3, JSON.stringify(change))
  await query(neap, scaled.uri, `select pg_terminate_backend(pid) from pg_stat_activity where query like 'do %'`)
  await Promise.all(counting)
  await holder.query('commit')
  await Promise.all(asked)
  for (const client of [holder, ...waiting]) await client.end()
})

/** The id of its compute; a client has its first answer a moment before that is on record. */
test('a restarted worker holds the computes that it adopts to their sizes', async () => {
  await query(neap, place.uri, 'select 1')
  const { data_dir } = neap.ready
  const id = await computeIdOf(neap, place)
  await until('it is limited', () => cpuQuota(data_dir, id) === 25_000)
  // As a worker that was killed before it limited the compute would leave it.
  removeQuota(data_dir, id)
  await kill(neap.part('worker'))
  await until('it is limited again', () => cpuQuota(data_dir, id) === 25_000)
})

test('an endpoint whose compute has lost its control groups says so, and serves', async () => {
  const scaled = await branchOff(neap, place, { min: 1, max: 2 })
  await query(neap, scaled.uri, 'select 1')
  const id = await computeIdOf(neap, scaled)
  for (const parent of new Set(groupParents(neap.ready.data_dir).values())) {
    await until('the group is empty', () => {
      try {
        for (const pid of readFileSync(`${parent}/${id}/cgroup.procs`, 'utf8').split('\n').filter(Boolean))
          writeFileSync(`${parent}/cgroup.procs`, pid)
        rmdirSync(`${parent}/${id}`)
        return true
      } catch {
        // A process has ended meanwhile, or has begun.
        return false
      }
    })
  }
  await until('it says so', async () => /no control group/.test((await endpointOf(neap, scaled)).limit_error ?? ''))
  await query(neap, scaled.uri, 'select 1')
  await suspend(neap, scaled)
  await query(neap, scaled.uri, 'select 1')
  assert.equal((await endpointOf(neap, scaled)).limit_error, undefined)
})
