import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { catalogQuery, superuser } from '../admin.ts'
import { connect, query } from '../clients.ts'
import { envOf, type Neap, spawnNeap, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { branchOff, computeOf, endpointOf, firstPlace, operationsOf, type Place, settled, suspend } from '../project.ts'

/* Availability checks run periodically and do not affect users. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_AVAILABILITY_INTERVAL: '2' } })
  place = await firstPlace(neap)
})
after(() => neap?.stop())

const checksOf = async ({ project_id, branch_id, endpoint_id }: Place) =>
  (await operationsOf(neap, { project_id, branch_id, endpoint_id, uri: '' })).filter(
    (operation) => operation.action === 'check_availability' && operation.branch_id === branch_id,
  )

/** Waits for the end of the next check that is created. */
async function nextCheck(where: Place) {
  const known = new Set((await checksOf(where)).map(({ id }) => id))
  return until('a check has ended', async () =>
    (await checksOf(where)).find(({ id, status }) => !known.has(id) && ['finished', 'failed'].includes(status)),
  )
}

/** Fields that a check does not change. */
const seen = async () => {
  const { current_state, last_active, started_at, suspended_at } = await endpointOf(neap, place)
  return { current_state, last_active, started_at, suspended_at }
}

test('a check uses a running compute, starts and stops an idle one, and keeps last_active', async () => {
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  const { pid } = (await computeOf(neap, place)) ?? {}
  const running = await nextCheck(place)
  assert.deepEqual([running.status, running.endpoint_id], ['finished', place.endpoint_id])
  assert.equal((await computeOf(neap, place))?.pid, pid)

  await suspend(neap, place)
  const asBefore = await seen()
  assert.equal((await nextCheck(place)).status, 'finished')
  await settled(neap, place, 'idle')
  assert.deepEqual(await seen(), asBefore)
  assert.equal(await computeOf(neap, place), undefined)

  // The check wrote to Neap's own database, not to the user's.
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  const admin = await superuser(neap, place)
  const { rows } = await admin.query<{ number: string }>('select number from availability')
  await admin.end()
  assert.ok(Number(rows[0]?.number) >= 2)
  assert.deepEqual(await query(neap, place.uri, `select from pg_class where relname = 'availability'`), [])
})

test('a client that connects during a check of an idle endpoint is served, and it stays active', async () => {
  for (let round = 0; round < 3; round++) {
    await suspend(neap, place)
    const checks = (await checksOf(place)).length
    await until('a check begins', async () => (await checksOf(place)).length > checks)
    const client = await connect(neap, place.uri)
    assert.equal((await client.query('select 1')).rowCount, 1)
    assert.ok((await checksOf(place)).every(({ status }) => status !== 'failed'))
    await settled(neap, place, 'active')
    assert.equal((await client.query('select 1')).rowCount, 1)
    await client.end()
  }
})

test('branches without an endpoint or with a disabled one are not checked', async () => {
  const { project_id } = place
  const bare = await neap.call('POST /projects/:project_id/branches', { params: { project_id }, body: {} })
  const other = await branchOff(neap, place)
  const { endpoint_id } = other
  const params = { project_id, endpoint_id }
  const disabled = await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
    params,
    body: { endpoint: { disabled: true } },
  })
  await neap.ended([...bare.operations, ...disabled.operations])
  const so = (await checksOf(other)).length
  await nextCheck(place)
  await nextCheck(place)
  assert.equal((await checksOf(other)).length, so)
  assert.deepEqual(await checksOf({ ...place, branch_id: bare.branch.id }), [])
})

test('a failed check is a failed operation with the remedy, and changes no state', async () => {
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  const admin = await superuser(neap, place)
  await admin.query('alter table availability add constraint full_up check (number < 0) not valid')
  const failed = await nextCheck(place)
  assert.equal(failed.status, 'failed')
  assert.match(failed.error ?? '', /^the branch is not available: .*full_up.* Start its endpoint to try again/)
  assert.equal(failed.failures_count, 4)
  assert.equal((await endpointOf(neap, place)).current_state, 'active')
  await admin.query('alter table availability drop constraint full_up')
  await admin.end()
  await until('a check finds it well', async () => (await nextCheck(place)).status === 'finished')
})

test('two workers check each branch once', async () => {
  const { data_dir } = neap.ready
  const other = spawnNeap(['worker'], envOf(data_dir, { NEAP_AVAILABILITY_INTERVAL: '2' }))
  try {
    const [since] = await catalogQuery<{ now: string }>(neap, 'select clock_timestamp()::text as now')
    for (let round = 0; round < 3; round++) await nextCheck(place)
    const [{ most } = { most: 0 }] = await catalogQuery<{ most: number }>(
      neap,
      `select count(*)::int - ceil(extract(epoch from clock_timestamp() - $1::timestamptz))::int as most
         from operation where action = 'check_availability' and branch_id = $2 and created_at > $1`,
      [since?.now, place.branch_id],
    )
    assert.ok(most <= 0, 'at most one in half the interval')
    const overlapping = await catalogQuery(
      neap,
      `select from operation a join operation b on a.branch_id = b.branch_id and a.seq < b.seq
        where a.action = 'check_availability' and b.action = a.action and a.finished_at > b.created_at`,
    )
    assert.equal(overlapping.length, 0)
  } finally {
    await kill(other.pid)
  }
})
