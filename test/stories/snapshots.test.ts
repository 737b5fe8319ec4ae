import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, newProject, type Place, suspend } from '../project.ts'

/* A snapshot keeps the data that a branch had at a moment, also without the branch, and gives them back. */

let neap: Neap
let main: Place

before(async () => {
  neap = await startNeap()
  main = await firstPlace(neap)
  await query(neap, main.uri, 'create table entry (id int primary key)')
})

after(() => neap?.stop())

interface Asked {
  readonly name?: string
  readonly timestamp?: string
  readonly lsn?: string
  readonly expires_at?: string
}

async function take({ project_id, branch_id }: Place, asked: Asked = {}) {
  const { snapshot, operations } = await neap.call('POST /projects/:project_id/branches/:branch_id/snapshot', {
    params: { project_id, branch_id },
    query: asked,
  })
  await neap.ended(operations)
  return snapshot
}

async function restore(place: Place, snapshot_id: string, body: object = {}) {
  const { branch, operations } = await neap.call('POST /projects/:project_id/snapshots/:snapshot_id/restore', {
    params: { project_id: place.project_id, snapshot_id },
    body,
  })
  await neap.ended(operations)
  return branch
}

/** The place of a branch with a new endpoint. */
async function withEndpoint({ project_id, endpoint_id, uri }: Place, branch_id: string): Promise<Place> {
  const { endpoint, operations } = await neap.call('POST /projects/:project_id/endpoints', {
    params: { project_id },
    body: { endpoint: { branch_id, type: 'read_write' } },
  })
  await neap.ended(operations)
  return { project_id, branch_id, endpoint_id: endpoint.id, uri: uri.replace(endpoint_id, endpoint.id) }
}

const listed = async ({ project_id }: Place) =>
  (await neap.call('GET /projects/:project_id/snapshots', { params: { project_id } })).snapshots

const branchesOf = async ({ project_id }: Place) =>
  (await neap.call('GET /projects/:project_id/branches', { params: { project_id } })).branches

const insert = ({ uri }: Place, id: number) => query(neap, uri, `insert into entry values (${id})`)

const idsOf = async ({ uri }: Place): Promise<number[]> =>
  (await query<{ id: number }>(neap, uri, 'select id from entry order by id')).map(({ id }) => id)

/** The directory with the data of a snapshot. */
async function storeOf(snapshotId: string): Promise<string> {
  const [row] = await catalogQuery<{ branch_id: string }>(neap, 'select branch_id from snapshot where id = $1', [
    snapshotId,
  ])
  return join(neap.ready.data_dir, 'branches', row?.branch_id ?? 'none')
}

test('a snapshot is no branch, and a branch is made of it, of a running source and of a sleeping one', async () => {
  await insert(main, 1)
  const running = await take(main, { name: 'running' })
  await insert(main, 2)
  await suspend(neap, main)
  const sleeping = await take(main)
  await insert(main, 3)
  assert.deepEqual(
    (await listed(main)).map(({ id, name, source_branch_id }) => [id, name, source_branch_id]),
    [
      [sleeping.id, sleeping.id, main.branch_id],
      [running.id, 'running', main.branch_id],
    ],
  )
  assert.deepEqual(
    (await branchesOf(main)).map(({ id }) => id),
    [main.branch_id],
  )
  for (const [snapshot, ids] of [
    [running, [1]],
    [sleeping, [1, 2]],
  ] as const) {
    const branch = await restore(main, snapshot.id)
    assert.equal(branch.parent_id, undefined)
    assert.equal(branch.restore_status, 'restored')
    assert.equal(branch.restored_from, snapshot.id)
    assert.equal(branch.restored_as, main.branch_id)
    const place = await withEndpoint(main, branch.id)
    assert.deepEqual(await idsOf(place), ids)
    // It is a branch like any other, which has children.
    await insert(place, 9)
    assert.deepEqual(await idsOf(await branchOff(neap, place)), [...ids, 9])
  }
  assert.deepEqual(await idsOf(main), [1, 2, 3])
})

test('a snapshot is taken of a moment: that commit is in it, the next one is not', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'create table entry (id int primary key)')
  await insert(place, 1)
  const [moment] = await query<{ at: string; lsn: string }>(
    neap,
    place.uri,
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
            pg_current_wal_lsn()::text as lsn`,
  )
  await insert(place, 2)
  for (const asked of [{ timestamp: moment?.at ?? '' }, { lsn: moment?.lsn ?? '' }]) {
    const snapshot = await take(place, asked)
    assert.equal(snapshot.lsn, 'lsn' in asked ? asked.lsn : undefined)
    assert.equal(snapshot.timestamp, 'timestamp' in asked ? asked.timestamp : undefined)
    const branch = await restore(place, snapshot.id)
    assert.deepEqual(await idsOf(await withEndpoint(place, branch.id)), [1])
  }
  const both = await send(
    neap,
    'POST',
    `/projects/${place.project_id}/branches/${place.branch_id}/snapshot?timestamp=2026-01-01T00:00:00Z&lsn=0/1`,
  )
  assert.equal(both.status, 422)
})

test('a snapshot outlives the branch that it was taken of', async () => {
  const child = await branchOff(neap, main)
  await insert(child, 40)
  const snapshot = await take(child)
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params: child })
  await neap.ended(operations)
  const branch = await restore(main, snapshot.id)
  assert.equal(branch.restored_as, child.branch_id)
  assert.ok((await idsOf(await withEndpoint(main, branch.id))).includes(40))
})

test('a restored branch replaces its target, which keeps its address, and the old data under a name', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'create table entry (id int primary key)')
  await insert(place, 1)
  const snapshot = await take(place)
  await insert(place, 2)
  const preview = await restore(place, snapshot.id, { name: 'preview' })
  const params = { project_id: place.project_id, branch_id: preview.id }
  const finalized = await neap.call('POST /projects/:project_id/branches/:branch_id/finalize_restore', {
    params,
    body: { name: 'before' },
  })
  await neap.ended(finalized.operations)
  assert.deepEqual(await idsOf(place), [1])
  const branches = await branchesOf(place)
  assert.equal(branches.find(({ id }) => id === preview.id)?.restore_status, 'finalized')
  const kept = branches.find(({ name }) => name === 'before')
  assert.deepEqual(await idsOf(await withEndpoint(place, kept?.id ?? '')), [1, 2])
  const again = await send(neap, 'POST', `/projects/${place.project_id}/branches/${preview.id}/finalize_restore`, {
    body: {},
  })
  assert.equal(again.status, 422)

  // At once, and the default name of what is kept.
  await insert(place, 3)
  const branch = await restore(place, snapshot.id, { finalize_restore: true })
  assert.equal(branch.id, place.branch_id)
  assert.equal(branch.parent_id, undefined)
  assert.deepEqual(await idsOf(place), [1])
  assert.ok((await branchesOf(place)).some(({ name }) => name.startsWith('main_old_')))
})

test('a password that was changed since does not come back', async () => {
  const place = await newProject(neap)
  const [role] = (await neap.call('GET /projects/:project_id/branches/:branch_id/roles', { params: place })).roles
  const snapshot = await take(place)
  const { role: changed, operations } = await neap.call(
    'POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password',
    { params: { ...place, role_name: role?.name ?? '' } },
  )
  await neap.ended(operations)
  const branch = await restore(place, snapshot.id)
  const restored = await withEndpoint(place, branch.id)
  await assert.rejects(query(neap, restored.uri, 'select 1'), /password/)
  const uri = new URL(restored.uri)
  uri.password = changed.password ?? ''
  assert.deepEqual(await query(neap, uri.toString(), 'select 1 as one'), [{ one: 1 }])
})

test('a snapshot is renamed, removed with its data, and expires', async () => {
  const params = { project_id: main.project_id }
  const { id } = await take(main, { name: 'first' })
  const path = `/projects/${main.project_id}/snapshots/${id}`
  const renamed = await send(neap, 'PATCH', path, { body: { snapshot: { name: 'second' } } })
  assert.equal((renamed.body as { snapshot: { name: string } }).snapshot.name, 'second')
  const store = await storeOf(id)
  assert.ok(existsSync(store))
  const removed = await send(neap, 'DELETE', path)
  assert.equal(removed.status, 202)
  await neap.ended((removed.body as { operations: { id: string; project_id: string }[] }).operations)
  assert.equal(existsSync(store), false)
  assert.equal((await send(neap, 'DELETE', path)).status, 404)

  const past = await send(neap, 'PATCH', path, { body: { snapshot: { expires_at: '2020-01-01T00:00:00Z' } } })
  assert.equal(past.status, 404)
  const soon = await take(main)
  const soonStore = await storeOf(soon.id)
  const expires_at = new Date(Date.now() + 1_000).toISOString()
  const soonPath = path.replace(id, soon.id)
  assert.equal((await send(neap, 'PATCH', soonPath, { body: { snapshot: { expires_at } } })).status, 200)
  await until('the snapshot has expired', async () => {
    const { snapshots } = await neap.call('GET /projects/:project_id/snapshots', { params })
    return !snapshots.some((each) => each.id === soon.id)
  })
  await until('its data are removed', () => !existsSync(soonStore))
})

/** Makes the schedule of a branch due now, and waits for its snapshot. */
async function scheduled(place: Place): Promise<{ id: string; manual?: boolean; name: string; expires_at?: string }> {
  const known = new Set((await listed(place)).map(({ id }) => id))
  await catalogQuery(
    neap,
    `update snapshot_schedule set next_at = date_trunc('hour', clock_timestamp()) where branch_id = $1`,
    [place.branch_id],
  )
  return until('a scheduled snapshot', async () => (await listed(place)).find(({ id }) => !known.has(id)))
}

const expire = (id: string) =>
  catalogQuery(neap, `update snapshot set expires_at = clock_timestamp() - interval '1 day' where id = $1`, [id])

test('a schedule takes snapshots, of which the newest is kept while the schedule stands', async () => {
  const place = await newProject(neap)
  const path = `/projects/${place.project_id}/branches/${place.branch_id}/backup_schedule`
  const set = async (schedule: object[]) => {
    const { status, body } = await send(neap, 'PUT', path, { body: { schedule } })
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual((await send(neap, 'GET', path)).body, { schedule })
  }
  assert.deepEqual((await send(neap, 'GET', path)).body, { schedule: [] })
  const refused = await send(neap, 'PUT', path, { body: { schedule: [{ frequency: 'weekly', day: 8 }] } })
  assert.equal(refused.status, 422)
  await set([{ frequency: 'hourly', retention_seconds: 7200 }])
  const first = await scheduled(place)
  assert.equal(first.manual, false)
  assert.match(first.name, /^main \d{4}-\d\d-\d\dT\d\d:00Z$/)
  const kept = Date.parse(first.expires_at ?? '') - Date.now()
  assert.ok(kept > 7_000_000 && kept <= 7_200_000, first.expires_at)
  const second = await scheduled(place)
  for (const { id } of [first, second]) await expire(id)
  await until('the older one has expired', async () => !(await listed(place)).some(({ id }) => id === first.id))
  assert.deepEqual(
    (await listed(place)).map(({ id }) => id),
    [second.id],
  )
  await set([])
  await until('the newest one has expired', async () => (await listed(place)).length === 0)
})

test('passwords that SQL changed and roles that it dropped do not come back at the address of the target', async () => {
  const place = await newProject(neap)
  const as = (name: string, password: string): string => {
    const uri = new URL(place.uri)
    uri.username = name
    uri.password = password
    return uri.href
  }
  const lets = (name: string, password: string): Promise<boolean> =>
    query(neap, as(name, password), 'select 1').then(
      () => true,
      () => false,
    )
  await query(
    neap,
    place.uri,
    ['changed', 'dropped', 'emptied', 'closed', 'kept']
      .map((name) => `create role ${name} login password 'the first one'`)
      .join('; '),
  )
  const snapshot = await take(place)
  await query(
    neap,
    place.uri,
    `alter role changed password 'the second one'; drop role dropped; alter role emptied password null;
     alter role closed nologin`,
  )
  const look = await restore(place, snapshot.id)
  const looked = await withEndpoint(place, look.id)
  const there = (name: string, password: string) => {
    const uri = new URL(as(name, password))
    uri.hostname = uri.hostname.replace(place.endpoint_id, looked.endpoint_id)
    return query(neap, uri.href, 'select 1').then(
      () => true,
      () => false,
    )
  }
  assert.deepEqual(
    [
      await there('changed', 'the first one'),
      await there('changed', 'the second one'),
      await there('dropped', 'the first one'),
    ],
    [false, true, false],
  )
  await query(neap, place.uri, `alter role changed password 'the third one'`)
  // And one that is reset while the restore is under way.
  const reset = neap.call('POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password', {
    params: { ...place, role_name: 'neondb_owner' },
  })
  await restore(place, snapshot.id, { finalize_restore: true, name: 'kept for the passwords' })
  const { role } = await reset
  assert.deepEqual(
    await Promise.all(
      [
        ['changed', 'the third one'],
        ['kept', 'the first one'],
        ['neondb_owner', role.password ?? ''],
      ].map(([name = '', password = '']) => lets(name, password)),
    ),
    [true, true, true],
  )
  for (const name of ['changed', 'dropped', 'emptied', 'closed'])
    assert.equal(await lets(name, 'the first one'), false, name)
})
