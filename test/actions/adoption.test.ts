/** The state that a starting worker finds: computes that run or have ended, and remains of failed operations. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pino } from 'pino'
import { type Branch, hasChildren, markBranchDeleted, setDefaultBranch } from '../../src/catalog/branch.ts'
import { findEndpointEver, markEndpointDeleted, updateEndpoint } from '../../src/catalog/endpoint.ts'
import { cancelUnbegun, postponeOperation } from '../../src/catalog/operation.ts'
import { deleteProject, lockProject } from '../../src/catalog/project.ts'
import { sql } from '../../src/catalog/sql.ts'
import { queueRestore } from '../../src/commands/restore_branch.ts'
import { hostId } from '../../src/host/id.ts'
import { newOperationId } from '../../src/ids.ts'
import { reconcile } from '../../src/loops/adoption.ts'
import { applyConfigOperation } from '../../src/operations/apply_config.ts'
import { requestOperation } from '../../src/operations/request.ts'
import { subjectOf } from '../../src/operations/start_compute.ts'
import { suspendCompute } from '../../src/operations/suspend_compute.ts'
import { until } from '../processes.ts'
import { openSite, type Site } from './site.ts'
import { createWorld, type World } from './world.ts'

let site: Site
let world: World
/** A branch that the tests do not check. */
let aside: Branch | undefined

before(async () => {
  site = await openSite()
  world = await createWorld(site)
})

after(() => site.close())

/** Replaces the worker; the next one adopts the current state. */
async function anotherWorker(): Promise<void> {
  aside ??= await world.branchOff(await world.home())
  await site.crew.replaceWorker()
  const subject = world.subjectOf(aside)
  await world.runOperation((tx) => requestOperation(tx, applyConfigOperation, subject, {}))
}

test('a new worker adopts a running compute without changing its row', async () => {
  const branch = await world.home()
  const { compute_id, started_at, updated_at } = await world.running(branch)
  await anotherWorker()
  const { current_state, ...adopted } = await world.endpointOf(site.catalog, branch)
  assert.equal(current_state, 'active')
  assert.deepEqual([adopted.compute_id, adopted.started_at, adopted.updated_at], [compute_id, started_at, updated_at])
  await site.agree()
})

test('the end of a killed compute is detected, and the compute starts again', async () => {
  const branch = await world.branchOff(await world.home())
  await world.killCompute(await world.running(branch))
  await anotherWorker()
  await until('it is idle', async () => (await world.endpointOf(site.catalog, branch)).current_state === 'idle')
  await site.agree()
  await world.running(branch)
  await site.agree()
})

test('a compute that ends before its move suspends it is not reported as a crash', async () => {
  const branch = await world.branchOff(await world.home())
  const to = await world.branchOff(await world.home())
  const moved = await world.running(branch)
  const suspended = await site.catalog.transaction(async (tx) => {
    await lockProject(tx, branch.account_id, branch.project_id)
    await updateEndpoint(tx, moved.id, { branch_id: to.id })
    const input = { reason: 'move', to: to.id } as const
    const operation = await requestOperation(tx, suspendCompute, { ...subjectOf(moved) }, input)
    await postponeOperation(tx, operation.id, 1)
    return operation
  })
  await world.killCompute(moved)
  const context = { ...site, hostId: await hostId(site.dataDir), log: pino({ level: 'silent' }) }
  assert.equal(await reconcile(context, await world.endpointOf(site.catalog, to), moved.compute_id ?? ''), 'busy')
  await site.catalog.rows(sql`update operation set run_at = clock_timestamp() where id = ${suspended.id}`)
  assert.equal((await world.ended(suspended)).status, 'finished')
  const operations = sql`select status from operation where endpoint_id = ${moved.id} and status = 'failed'`
  assert.deepEqual(await site.catalog.rows(operations), [])
  assert.equal((await world.endpointOf(site.catalog, to)).current_state, 'idle')
  await site.agree()
})

test('a new worker resumes an endpoint whose pausing operation does not exist', async () => {
  const branch = await world.home()
  const known = await world.running(branch)
  await site.catalog.rows(sql`update endpoint set holding_operation_id = ${newOperationId()} where id = ${known.id}`)
  await anotherWorker()
  await until('it is open', async () => (await world.endpointOf(site.catalog, branch)).holding_operation_id === null)
  assert.equal((await world.endpointOf(site.catalog, branch)).compute_id, known.compute_id)
  await site.agree()
})

test('a new worker stops the compute of a deleted endpoint', async () => {
  const branch = await world.branchOff(await world.home())
  const { id } = await world.running(branch)
  await site.catalog.transaction((tx) => markEndpointDeleted(tx, id))
  await anotherWorker()
  await until('its row is gone', async () => !(await findEndpointEver(site.catalog, id)))
  await site.agree()
})

test('a new worker leaves a sleeping branch alone whose files are read', async () => {
  const branch = await world.branchOff(await world.home())
  await world.running(branch)
  await world.suspended(branch)
  const { id, store_id } = await world.read(branch)
  const reader = spawn('sleep', ['60'], { cwd: join(site.dataDir, 'branches', store_id, 'pgdata/base') })
  await anotherWorker()
  reader.kill()
  const operations = sql`select action from operation where branch_id = ${id} order by seq`
  const actions = (await site.catalog.rows<{ action: string }>(operations)).map(({ action }) => action)
  assert.deepEqual(actions, ['create_branch', 'start_compute', 'suspend_compute'])
})

test('a new worker removes the stores of a deleted project, including running computes', async () => {
  const branch = await world.project()
  const child = await world.branchOff(branch)
  await world.running(child)
  await site.catalog.transaction((tx) => deleteProject(tx, branch.project_id))
  await anotherWorker()
  for (const each of [branch, child]) {
    await until(`${each.id} is removed`, async () => !(await world.read(each)))
  }
  await site.agree()
})

test('a restore that is cancelled before its exchange leaves no copy, named or not', async () => {
  const branch = await world.branchOff(await world.home())
  const source = await world.branchOff(await world.home())
  for (const keptName of ['kept', undefined]) {
    const { copy, operations } = await site.catalog.transaction(async (tx) => {
      await lockProject(tx, branch.account_id, branch.project_id)
      const queued = await queueRestore(tx, {
        branch: await world.read(branch),
        source: await world.read(source),
        keptName,
      })
      await cancelUnbegun(tx, branch.project_id, { branchId: branch.id }, 'for a test')
      if (keptName) await setDefaultBranch(tx, branch.project_id, queued.copy.id)
      return queued
    })
    await Promise.all(operations.map((operation) => world.ended(operation)))
    await anotherWorker()
    await until('the copy is removed', async () => !(await world.read(copy)))
    const { store_id, is_default } = await world.read(branch)
    // The project still has a default branch.
    assert.deepEqual([store_id, is_default], [branch.id, true])
    assert.equal(await hasChildren(site.catalog, source.id), false)
    await site.agree()
  }
})

test('a restore whose copy is deleted meanwhile leaves the branch unchanged', async () => {
  const branch = await world.branchOff(await world.home())
  const source = await world.home()
  const { compute_id } = await world.running(branch)
  const { copy, operations } = await site.catalog.transaction(async (tx) => {
    await lockProject(tx, branch.account_id, branch.project_id)
    const queued = await queueRestore(tx, { branch: await world.read(branch), source, keptName: 'kept' })
    await markBranchDeleted(tx, queued.copy.id)
    return queued
  })
  const ends = await Promise.all(operations.map((operation) => world.ended(operation)))
  assert.deepEqual(
    ends.map(({ action, status }) => `${action} ${status}`),
    ['create_branch failed', 'suspend_compute failed', 'create_branch failed', 'start_compute finished'],
  )
  const endpoint = await world.endpointOf(site.catalog, branch)
  assert.deepEqual([endpoint.current_state, endpoint.compute_id], ['active', compute_id])
  await world.awaitRemoval(copy)
  await site.agree()
})

test('deleting every project leaves no store', async () => {
  await world.deleteEverything()
  await site.agree()
})
