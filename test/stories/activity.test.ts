import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as openSocket } from 'node:net'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { connect, query } from '../clients.ts'
import { send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { computeOf, enableReplication, firstPlace, type Place, settled, suspend } from '../project.ts'

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_MIN_SUSPEND_TIMEOUT: '1' } })
  place = await firstPlace(neap)
  await enableReplication(neap, place)
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
})
after(() => neap?.stop())

async function activity() {
  const { project_id, endpoint_id } = place
  const params = { project_id, endpoint_id }
  return (await neap.call('GET /projects/:project_id/endpoints/:endpoint_id/activity', { params })).activity
}

async function change(endpoint: { suspend_timeout_seconds?: number; disabled?: boolean }): Promise<void> {
  const { project_id, endpoint_id } = place
  const params = { project_id, endpoint_id }
  const answer = await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params, body: { endpoint } })
  await neap.ended(answer.operations)
}

const kinds = (uses: { kind: string; keeps_awake: boolean }[]) =>
  uses.map(({ kind, keeps_awake }) => `${kind}${keeps_awake ? '!' : ''}`).sort()

test('the activity of an unused compute tells when it will be suspended, and it is suspended then', async () => {
  await change({ suspend_timeout_seconds: 600 })
  await until('nobody is there any more', async () => (await activity()).uses.length === 0)
  const first = await activity()
  assert.deepEqual([first.reason, first.current_state, first.suspend_timeout_seconds], ['unused', 'active', 600])
  const since = Date.parse(first.idle_since ?? '')
  assert.ok(Math.abs(Date.parse(first.suspends_at ?? '') - since - 600_000) < 2)
  assert.ok(Date.now() - since < 60_000)
  // Reading the activity does not count as activity.
  for (let look = 0; look < 5; look++)
    assert.ok(Math.abs(Date.parse((await activity()).idle_since ?? '') - since) < 1_000)
  await change({ suspend_timeout_seconds: 1 })
  await settled(neap, place, 'idle')
  const asleep = await activity()
  assert.deepEqual([asleep.reason, asleep.suspends_at, asleep.uses, asleep.slots], ['asleep', null, [], []])
  assert.match(asleep.explanation, /^It has been asleep since 20\S+Z; the next connection wakes it\.$/)
  await change({ suspend_timeout_seconds: 600 })
})

test('a connection that does not log in keeps no compute awake', async (t) => {
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  const { socket_dir, port } = (await computeOf(neap, place)) ?? {}
  const silent = openSocket(`${socket_dir}/.s.PGSQL.${port}`).on('error', () => {})
  t.after(() => silent.destroy())
  await once(silent, 'connect')
  const closed = once(silent.resume(), 'end')
  await change({ suspend_timeout_seconds: 1 })
  await closed
  await settled(neap, place, 'idle')
  await change({ suspend_timeout_seconds: 600 })
})

test('the activity lists the sessions that keep a compute awake, without their queries', async (t) => {
  const open = async (config: pg.ClientConfig) => {
    const client = await connect(neap, place.uri, config)
    t.after(() => client.end())
    return client
  }
  await open({ application_name: 'merely open' })
  await settled(neap, place, 'active')
  assert.deepEqual(kinds((await activity()).uses), ['session'])
  const busy = await open({ application_name: 'shop' })
  await busy.query('begin')
  await busy.query(`select 'a secret'`)
  const stream = await open({ application_name: 'copy', replication: 'database' } as pg.ClientConfig)
  await stream.query('CREATE_REPLICATION_SLOT shop_changes PHYSICAL RESERVE_WAL')
  const found = await activity()
  assert.deepEqual([found.reason, found.idle_since, found.suspends_at], ['busy', null, null])
  assert.deepEqual(kinds(found.uses), ['replication!', 'session', 'session!'])
  assert.match(
    found.explanation,
    /^It stays awake as long as this goes on: (session \(1\), replication \(1\)|replication \(1\), session \(1\))\.$/,
  )
  const session = found.uses.find(({ name }) => name === 'shop')
  assert.deepEqual([session?.database, session?.role], ['neondb', 'neondb_owner'])
  assert.equal(session?.state, 'idle in transaction')
  for (const time of [session?.since, session?.transaction_since, session?.query_since])
    assert.ok(Math.abs(Date.now() - Date.parse(time ?? '')) < 60_000, String(time))
  assert.ok(!JSON.stringify(found).includes('secret'))
  const [slot] = found.slots
  assert.deepEqual([slot?.name, slot?.kind, slot?.active], ['shop_changes', 'physical', false])
  assert.ok(Number(slot?.kept_bytes) >= 0)

  const { stdout } = await neapRun(['endpoints', 'activity'], envOf(neap.ready.data_dir))
  assert.match(stdout, /^NOW +It stays awake/m)
  assert.match(stdout, /^session +\d+ +shop +neondb_owner +neondb +idle in transaction +20\S+Z +20\S+Z +20\S+Z +yes$/m)
  assert.match(stdout, /^shop_changes +physical +\d+ MiB$/m)
  await stream.query('DROP_REPLICATION_SLOT shop_changes')
})

test('the activity reports an endpoint that never suspends, a disabled one and a missing one', async () => {
  await change({ suspend_timeout_seconds: -1 })
  await until('nobody is there any more', async () => (await activity()).uses.length === 0)
  const never = await activity()
  assert.deepEqual([never.reason, never.suspends_at, never.suspend_timeout_seconds], ['never', null, -1])
  await change({ suspend_timeout_seconds: 600 })
  await suspend(neap, place)
  await change({ disabled: true })
  assert.equal((await activity()).reason, 'disabled')
  const unknown = await send(neap, 'GET', `/projects/${place.project_id}/endpoints/ep-calm-reef-00000000/activity`)
  assert.equal(unknown.status, 404)
})
