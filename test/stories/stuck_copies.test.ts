import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { send } from '../http.ts'
import { leaveNothing, type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, endpointOf, firstPlace, newProject, type Place, settled, suspend } from '../project.ts'
import { awaitCopies, freezeCheckpointer, stuckCopy } from '../stuck_copies.ts'

/* Copies that stand still: of the same branch, and beside other projects. */

let neap: Neap
let parent: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_WORKER_CONCURRENCY: '2', NEAP_COPIES: '4', NEAP_OPERATIONS_LIMIT: '10' } })
  parent = await firstPlace(neap)
})

after(() => neap?.stop())

async function addRole(place: Place, name: string) {
  const { project_id, branch_id } = place
  const made = await neap.call('POST /projects/:project_id/branches/:branch_id/roles', {
    params: { project_id, branch_id },
    body: { role: { name } },
  })
  return { ...made, uri: uriOf(place, name, made.role.password ?? '') }
}

function uriOf(place: Place, name: string, password: string): string {
  const uri = new URL(place.uri)
  uri.username = name
  uri.password = password
  return uri.href
}

async function resetPassword(place: Place, role_name: string): Promise<string> {
  const { project_id, branch_id } = place
  const path = 'POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password'
  const { role, operations } = await neap.call(path, { params: { project_id, branch_id, role_name } })
  await neap.ended(operations)
  return role.password ?? ''
}

const selectUser = async (uri: string) => (await query<{ it: string }>(neap, uri, 'select current_user as it'))[0]?.it

test('a sleeping parent wakes with its changed roles while a branch of it is being copied', async () => {
  const keeper = await addRole(parent, 'keeper')
  await neap.ended(keeper.operations)
  assert.equal(await selectUser(keeper.uri), 'keeper')
  await suspend(neap, parent)
  const copy = await stuckCopy(neap, parent)
  const added = await addRole(parent, 'added')
  assert.equal(await selectUser(added.uri), 'added')
  await neap.ended(added.operations)
  const renewed = await resetPassword(parent, 'keeper')
  assert.equal(await selectUser(uriOf(parent, 'keeper', renewed)), 'keeper')
  // The start has ended that copy: it begins again from the running compute.
  await neap.ended(copy.operations)
  const params = { project_id: parent.project_id }
  const body = { endpoint: { type: 'read_write' as const, branch_id: copy.branch_id } }
  const made = await neap.call('POST /projects/:project_id/endpoints', { params, body })
  await neap.ended(made.operations)
  const child = keeper.uri.replace(parent.endpoint_id, made.endpoint.id)
  assert.equal(await selectUser(child), 'keeper', 'the branch has the password of the time of its request')
})

test('passwords are reset and the compute stops while a branch of it is being copied', async () => {
  await query(neap, parent.uri, 'select 1')
  const copy = await stuckCopy(neap, parent)
  const renewed = await resetPassword(parent, 'keeper')
  assert.equal(await selectUser(uriOf(parent, 'keeper', renewed)), 'keeper')
  await suspend(neap, parent)
  assert.equal((await endpointOf(neap, parent)).current_state, 'idle')
  copy.release()
  await neap.ended(copy.operations)
})

test('copies that stand still delay neither other projects nor their own', async () => {
  const other = await newProject(neap)
  await suspend(neap, other)
  const sibling = await branchOff(neap, parent)
  await suspend(neap, sibling)
  await query(neap, parent.uri, 'select 1')
  const thaw = await freezeCheckpointer(neap, parent)
  try {
    const { project_id, branch_id } = parent
    const made = []
    for (let each = 0; each < 10; each++)
      made.push(
        await neap.call('POST /projects/:project_id/branches', {
          params: { project_id },
          body: { branch: { parent_id: branch_id } },
        }),
      )
    await awaitCopies(neap, parent, 2)
    await query(neap, other.uri, 'select 1')
    await settled(neap, other, 'active')
    await suspend(neap, other)
    // Another project's branch is copied, and a new project is made.
    await branchOff(neap, other)
    await newProject(neap)
    // What the project may have queued is used up: changes are refused, connections and suspends are not.
    const path = `/projects/${project_id}/branches/${branch_id}/roles`
    const over = await send(neap, 'POST', path, { body: { role: { name: 'late' } } })
    assert.deepEqual([over.status, over.headers.get('retry-after')], [429, '5'])
    assert.match(over.body.message ?? '', /has 10 operations queued or running/)
    await query(neap, sibling.uri, 'select 1')
    await settled(neap, sibling, 'active')
    await suspend(neap, sibling)
    thaw()
    for (const { operations } of made) await neap.ended(operations)
  } finally {
    thaw()
  }
})

test('a branch whose copy stands still is deleted', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'select 1')
  const thaw = await freezeCheckpointer(neap, place)
  try {
    const params = { project_id: place.project_id }
    const body = { branch: { parent_id: place.branch_id } }
    const { branch } = await neap.call('POST /projects/:project_id/branches', { params, body })
    await awaitCopies(neap, place, 1)
    const path = `/projects/${place.project_id}/branches/${branch.id}?hard_delete=true`
    const { status, body: deleted } = await send(neap, 'DELETE', path)
    assert.equal(status, 200)
    await neap.ended(deleted['operations'] as { id: string; project_id: string }[])
  } finally {
    thaw()
  }
})

// The last one: it ends Neap.
test('a compute that starts during the shutdown is suspended too', async () => {
  await query(neap, parent.uri, 'select 1')
  const other = await newProject(neap)
  await suspend(neap, other)
  const copy = await stuckCopy(neap, other, [{ type: 'read_write' }])
  // Its suspend lasts until then.
  const thaw = await freezeCheckpointer(neap, parent)
  try {
    const ended = neap.end('SIGTERM')
    const found = async (statement: string, id: string) => (await catalogQuery(neap, statement, [id])).length > 0
    const suspends = `
      select from operation where endpoint_id = $1 and action = 'suspend_compute' and finished_at is null`
    await until('the shutdown suspends computes', () => found(suspends, parent.endpoint_id))
    copy.release()
    const runs = `select from endpoint where branch_id = $1 and current_state = 'active'`
    await until('the new compute runs', () => found(runs, copy.branch_id))
    thaw()
    assert.equal(await ended, 0)
    await leaveNothing(neap.ready.data_dir, { keep: true })
  } finally {
    thaw()
  }
})
