import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { ApiResponse } from '../../src/client.ts'
import { catalogQuery } from '../admin.ts'
import { connect, query } from '../clients.ts'
import { refused, type Request, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, type Place } from '../project.ts'

/* A deleted branch can be recovered, with its endpoint, roles and passwords, until its time is over. */

const MOST = 3

let neap: Neap
let main: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_BRANCH_RECOVER_HOURS: '168', NEAP_BRANCHES_LIMIT: String(MOST) } })
  main = await firstPlace(neap)
})

after(() => neap?.stop())

type ApiBranch = ApiResponse<'GET /projects/:project_id/branches'>['branches'][number]

const http = ({ project_id, branch_id }: Place, method: string, rest = '', request?: Request) =>
  send(neap, method, `/projects/${project_id}/branches/${branch_id}${rest}`, request)

async function remove({ project_id, branch_id }: Place, hard_delete = false) {
  const params = { project_id, branch_id }
  const answer = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params, query: { hard_delete } })
  await neap.ended(answer.operations)
  return answer
}

const recover = ({ project_id, branch_id }: Place) =>
  neap.call('POST /projects/:project_id/branches/:branch_id/recover', { params: { project_id, branch_id } })

async function listed(include_deleted: boolean): Promise<ApiBranch[]> {
  const { project_id } = main
  const params = { project_id }
  return (await neap.call('GET /projects/:project_id/branches', { params, query: { include_deleted, limit: 100 } }))
    .branches
}

const isStored = ({ branch_id }: Place) => existsSync(join(neap.ready.data_dir, 'branches', branch_id))

test('a branch that was deleted while it ran comes back with its rows, roles, passwords and endpoint', async () => {
  const place = await branchOff(neap, main)
  await query(neap, place.uri, 'create table kept as select 7 as number')
  await query(neap, place.uri, `create role made_by_sql login password 'a password of its own'`)
  const kept = (await neap.call('GET /projects/:project_id/endpoints/:endpoint_id', { params: place })).endpoint
  const session = await connect(neap, place.uri)
  const { branch, operations } = await remove(place)
  assert.deepEqual(
    operations.map(({ action }) => action),
    ['suspend_compute'],
  )
  await assert.rejects(session.query('select 1'))
  await assert.rejects(query(neap, place.uri, 'select 1'), /password authentication failed/)
  refused(await http(place, 'GET'), 404, 'NOT_FOUND', /not found/)
  assert.ok(!(await listed(false)).some(({ id }) => id === place.branch_id))
  const deleted = (await listed(true)).find(({ id }) => id === place.branch_id)
  const { branches: only } = await neap.call('GET /projects/:project_id/branches', {
    params: { project_id: main.project_id },
    query: { recoverable: true, limit: 100 },
  })
  assert.deepEqual(only, [deleted])
  assert.deepEqual(deleted?.recovery, branch.recovery)
  assert.equal(deleted?.recovery?.deletion_method, 'user')
  const { deleted_at, recoverable_until } = deleted.recovery
  assert.equal(Math.round((Date.parse(recoverable_until) - Date.parse(deleted_at)) / 3_600_000), 168)
  assert.ok(isStored(place))

  const { branch: recovered, endpoints } = await recover(place)
  assert.equal(recovered.recovery, undefined)
  assert.equal(recovered.parent_id, main.branch_id)
  assert.deepEqual(
    endpoints.map(({ id, host, current_state }) => [id, host, current_state]),
    [[kept.id, kept.host, 'idle']],
  )
  assert.deepEqual(await query(neap, place.uri, 'select number from kept'), [{ number: 7 }])
  const own = new URL(place.uri)
  own.username = 'made_by_sql'
  own.password = 'a password of its own'
  assert.deepEqual(await query(neap, own.href, 'select 1 as one'), [{ one: 1 }])
  refused(await http(place, 'POST', '/recover'), 404, 'NOT_FOUND', /not found among those that can be recovered/)
  await remove(place, true)
})

test('a branch is recovered while its compute still stops', async () => {
  const place = await branchOff(neap, main)
  await query(neap, place.uri, 'create table kept as select 8 as number')
  const { project_id, branch_id } = place
  const params = { project_id, branch_id }
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params })
  await recover(place)
  assert.deepEqual(await query(neap, place.uri, 'select number from kept'), [{ number: 8 }])
  await neap.ended(operations)
  assert.deepEqual(await query(neap, place.uri, 'select number from kept'), [{ number: 8 }])
  await remove(place, true)
})

test('hard_delete removes the data of a branch at once, which cannot be recovered then', async () => {
  const place = await branchOff(neap, main)
  const { operations } = await remove(place, true)
  assert.ok(operations.some(({ action }) => action === 'delete_timeline'))
  assert.ok(!isStored(place))
  refused(await http(place, 'POST', '/recover'), 404, 'NOT_FOUND', /not found among/)
})

test('an expired branch can be recovered, and expires no more', async () => {
  const place = await branchOff(neap, main)
  await query(neap, place.uri, 'create table kept as select 9 as number')
  await http(place, 'PATCH', '', { body: { branch: { expires_at: new Date(Date.now() + 1_000).toISOString() } } })
  const expired = await until('the branch expires', async () =>
    (await listed(true)).find(({ id, recovery }) => id === place.branch_id && recovery),
  )
  assert.equal(expired.recovery?.deletion_method, 'ttl')
  const { branch } = await recover(place)
  assert.equal(branch.expires_at, undefined)
  assert.deepEqual(await query(neap, place.uri, 'select number from kept'), [{ number: 9 }])
  await remove(place, true)
})

test('a deleted parent is recovered before its child, which has none once that is removed', async () => {
  const parent = await branchOff(neap, main)
  const child = await branchOff(neap, parent)
  await remove(child)
  await remove(parent)
  refused(await http(child, 'POST', '/recover'), 422, 'NOT_ALLOWED', /Its parent .* is deleted too/)
  await recover(parent)
  assert.equal((await recover(child)).branch.parent_id, parent.branch_id)
  await remove(child)
  await remove(parent)
  await remove(parent, true)
  assert.ok(!isStored(parent))
  assert.equal((await recover(child)).branch.parent_id, undefined)
  await query(neap, child.uri, 'select 1')
  await remove(child, true)
})

test('a branch is not recovered over another with its name, nor over the limit of branches', async () => {
  const place = await branchOff(neap, main)
  const { branch } = await remove(place)
  const { project_id, branch_id: parent_id } = main
  const others: Place[] = []
  for (const name of [branch.name, 'another']) {
    const made = await neap.call('POST /projects/:project_id/branches', {
      params: { project_id },
      body: { branch: { name, parent_id } },
    })
    await neap.ended(made.operations)
    others.push({ ...main, branch_id: made.branch.id })
  }
  const [namesake, other] = others as [Place, Place]
  refused(await http(place, 'POST', '/recover'), 409, 'BRANCH_ALREADY_EXISTS', /already exists/)
  await http(namesake, 'PATCH', '', { body: { branch: { name: 'renamed' } } })
  refused(await http(place, 'POST', '/recover'), 422, 'BRANCHES_LIMIT_EXCEEDED', /may have 3 branches/)
  await remove(other, true)
  await recover(place)
  await remove(place, true)
  await remove(namesake, true)
})

test('so many branches of a project are kept as it may have, and those whose time is over are removed', async () => {
  const places: Place[] = []
  for (let number = 0; number <= MOST; number++) {
    const place = await branchOff(neap, main)
    await remove(place)
    places.push(place)
  }
  const [first, second, ...rest] = places as [Place, Place, ...Place[]]
  await catalogQuery(neap, `update branch set recoverable_until = now() where id = $1`, [second.branch_id])
  await until('the data of two are removed', () => !isStored(first) && !isStored(second))
  for (const place of rest) assert.ok(isStored(place))
  refused(await http(first, 'POST', '/recover'), 404, 'NOT_FOUND', /not found among/)
  for (const place of rest) {
    await recover(place)
    await query(neap, place.uri, 'select 1')
    await remove(place, true)
  }
})
