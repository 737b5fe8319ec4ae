import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { connect, query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, type Place, settled, suspend } from '../project.ts'

/* A program or a subscription of another branch reads the changes of a database from a slot, through the proxy. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_COMPUTE_NETWORK: 'host' } })
  place = await firstPlace(neap)
  await query(neap, place.uri, 'create table item (number int primary key)')
  await query(neap, place.uri, 'create publication items for table item')
})
after(() => neap?.stop())

async function activityOf(running: Place) {
  await settled(neap, running, 'active')
  const { project_id, endpoint_id } = running
  const params = { project_id, endpoint_id }
  return (await neap.call('GET /projects/:project_id/endpoints/:endpoint_id/activity', { params })).activity
}

test('roles may replicate only while the project enables logical replication', async () => {
  const params = { project_id: place.project_id }
  const replicates = () =>
    query(neap, place.uri, 'select rolreplication as may from pg_roles where rolname = current_user')
  const set = async (enable_logical_replication: boolean) => {
    const body = { project: { settings: { enable_logical_replication } } }
    const { project, operations } = await neap.call('PATCH /projects/:project_id', { params, body })
    assert.equal(project.settings?.enable_logical_replication, enable_logical_replication)
    await neap.ended(operations)
  }
  assert.deepEqual(await replicates(), [{ may: false }])
  await assert.rejects(
    query(neap, place.uri, `select pg_create_logical_replication_slot('reader', 'pgoutput')`),
    /permission denied to use replication slots/,
  )
  await set(true)
  assert.deepEqual(await replicates(), [{ may: true }])
  await set(false)
  assert.deepEqual(await replicates(), [{ may: false }])
  await set(true)
  const child = await branchOff(neap, place)
  assert.deepEqual(
    await query(neap, child.uri, 'select rolreplication as may from pg_roles where rolname = current_user'),
    [{ may: true }],
  )
})

test('a slot keeps changes through a suspend, and branches do not inherit it', async () => {
  await query(neap, place.uri, `select pg_create_logical_replication_slot('reader', 'pgoutput')`)
  await query(neap, place.uri, 'insert into item values (1)')
  await suspend(neap, place)
  await query(neap, place.uri, 'insert into item values (2)')
  const { slots } = await activityOf(place)
  assert.deepEqual(
    slots.map(({ name, kind, active }) => [name, kind, active]),
    [['reader', 'logical', false]],
  )
  const read = await query<{ kind: string }>(
    neap,
    place.uri,
    `select chr(get_byte(data, 0)) as kind
       from pg_logical_slot_get_binary_changes(
              'reader', null, null, 'proto_version', '1', 'publication_names', 'items')`,
  )
  assert.equal(read.filter(({ kind }) => kind === 'I').length, 2)
  const kept = 'show max_slot_wal_keep_size'
  assert.deepEqual(await query(neap, place.uri, kept), [{ max_slot_wal_keep_size: '10GB' }])
  const child = await branchOff(neap, place)
  const users = `select slot_name from pg_replication_slots where slot_name <> 'neap_history'`
  assert.deepEqual(await query(neap, child.uri, users), [])
})

test('a subscription of another branch wakes its publisher and keeps both active', async () => {
  const reader = await branchOff(neap, place)
  await query(neap, reader.uri, 'truncate item')
  const { port, username, password, pathname } = new URL(place.uri)
  const login = `user=${username} password=${password} dbname=${pathname.slice(1)}`
  const source = `host=127.0.0.1 port=${port} ${login} sslmode=require options=endpoint=${place.endpoint_id}`
  await suspend(neap, place)
  await query(neap, reader.uri, `create subscription copy connection '${source}' publication items`)
  await query(neap, place.uri, 'insert into item values (3)')
  await until('all has arrived', async () => {
    const rows = await query<{ number: number }>(neap, reader.uri, 'select number from item order by number')
    return rows.map((row) => row.number).join() === '1,2,3'
  })
  for (const each of [place, reader]) assert.equal((await activityOf(each)).reason, 'busy')
  await query(neap, reader.uri, 'drop subscription copy')
})

test('a subscriber that reads nothing keeps no compute from its stop', async () => {
  await query(neap, place.uri, 'create table wide (text text)')
  await query(neap, place.uri, 'create publication wides for table wide')
  await query(neap, place.uri, `select pg_create_logical_replication_slot('hung', 'pgoutput')`)
  const options = `endpoint=${place.endpoint_id} -c wal_sender_timeout=0`
  const client = await connect(neap, place.uri, { replication: 'database', options } as pg.ClientConfig)
  const lost = client
    .query(`START_REPLICATION SLOT hung LOGICAL 0/0 (proto_version '1', publication_names 'wides')`)
    .catch((error: unknown) => error)
  await query(neap, place.uri, 'insert into wide select repeat(n::text, 1000) from generate_series(1, 20000) n')
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
  stream.pause()
  await suspend(neap, place)
  // An immediate shutdown loses no committed row, and the slot continues where it was.
  assert.deepEqual(await query(neap, place.uri, 'select count(*)::int from wide'), [{ count: 20_000 }])
  const kept = `select count(*)::int from pg_replication_slots where slot_name = 'hung'`
  assert.deepEqual(await query(neap, place.uri, kept), [{ count: 1 }])
  stream.resume()
  await lost
  await client.end().catch(() => {})
})
