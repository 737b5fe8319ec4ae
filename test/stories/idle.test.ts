import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { catalogQuery } from '../admin.ts'
import { connect, query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import {
  branchOff,
  computeOf,
  enableReplication,
  endpointOf,
  firstPlace,
  operationsOf,
  type Place,
  settled,
} from '../project.ts'

/*
 * An idle endpoint is suspended after its timeout and not earlier. A second, unused endpoint with the same timeout
 * serves as the clock.
 */

let neap: Neap
let place: Place
let unused: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_MIN_SUSPEND_TIMEOUT: '1' } })
  place = await firstPlace(neap)
  await enableReplication(neap, place)
  unused = await branchOff(neap, place)
  await setTimeoutOf(unused, 1)
})

after(() => neap?.stop())

async function setTimeoutOf({ project_id, endpoint_id }: Place, suspend_timeout_seconds: number): Promise<void> {
  const params = { project_id, endpoint_id }
  const body = { endpoint: { suspend_timeout_seconds } }
  await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params, body })
}

const asleep = (where: Place) => settled(neap, where, 'idle')

/** Wakes the unused endpoint and waits until it is suspended: the duration of an idle timeout. */
async function awaitIdleTimeouts(times = 3): Promise<void> {
  for (let time = 0; time < times; time++) {
    await query(neap, unused.uri, 'select 1')
    await asleep(unused)
  }
}

const suspendsOf = async ({ endpoint_id }: Place) =>
  (await operationsOf(neap, place)).filter(
    (operation) => operation.endpoint_id === endpoint_id && operation.action === 'suspend_compute',
  ).length

async function expectActive(): Promise<void> {
  await awaitIdleTimeouts()
  assert.equal((await endpointOf(neap, place)).current_state, 'active')
}

test('an unused endpoint is suspended, and wakes for the next connection', async () => {
  await setTimeoutOf(place, 1)
  await query(neap, place.uri, 'create table if not exists kept as select 7 as value')
  await asleep(place)
  assert.deepEqual(await query(neap, place.uri, 'select value from kept'), [{ value: 7 }])
  await asleep(place)
  assert.ok((await suspendsOf(place)) >= 2)
})

test('an open transaction and a running query keep an endpoint active', async (t) => {
  const client = await connect(neap, place.uri)
  t.after(() => client.end())
  await client.query('begin')
  await client.query('select 1')
  await expectActive()
  await client.query('commit')
  const long = client.query('select pg_sleep(3600)').catch((error: unknown) => error)
  await expectActive()
  await query(
    neap,
    place.uri,
    `select pg_cancel_backend(pid) from pg_stat_activity where query like 'select pg_sleep%'`,
  )
  assert.match(String(await long), /canceling statement/)
  await client.end()
  await asleep(place)
})

test('an idle connection does not keep an endpoint active, and gets the reason when it ends', async () => {
  const { promise: lost, resolve } = Promise.withResolvers<Error & { code?: string }>()
  const client = await connect(neap, place.uri, { lost: resolve })
  await client.query('select 1')
  await asleep(place)
  assert.equal((await lost).code, '57P01')
})

test('a replication stream keeps an endpoint active', async () => {
  const client = await connect(neap, place.uri, { replication: 'true' } as pg.ClientConfig)
  const { rows } = await client.query<{ xlogpos: string }>('IDENTIFY_SYSTEM')
  const stream = client.query(`START_REPLICATION ${rows[0]?.xlogpos}`).catch((error: unknown) => error)
  const streaming = `select count(*)::int as streams from pg_stat_replication where state = 'streaming'`
  await until(
    'it streams',
    async () => (await query<{ streams: number }>(neap, place.uri, streaming))[0]?.streams === 1,
  )
  await expectActive()
  await client.end()
  await stream
  await asleep(place)
})

test('a changed suspend timeout takes effect at once, even during an idle check', async () => {
  await setTimeoutOf(place, 600)
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  const postmaster = (await computeOf(neap, place))?.pid
  assert.ok(postmaster)
  process.kill(postmaster, 'SIGSTOP')
  try {
    // Without stored counters the idle loop queries the compute, which accepts no session now.
    await catalogQuery(neap, 'update endpoint set idle_counters = null where id = $1', [place.endpoint_id])
    await setTimeoutOf(place, 601)
    const taken = 'select 1 from endpoint where id = $1 and idle_check_at > clock_timestamp()'
    await until('it is looked at', async () => (await catalogQuery(neap, taken, [place.endpoint_id])).length > 0)
    await setTimeoutOf(place, 1)
  } finally {
    process.kill(postmaster, 'SIGCONT')
  }
  await asleep(place)
})

test('an endpoint with the timeout -1 is never suspended', async () => {
  await setTimeoutOf(place, -1)
  await query(neap, place.uri, 'select 1')
  await expectActive()
  await setTimeoutOf(place, 1)
  await asleep(place)
})
