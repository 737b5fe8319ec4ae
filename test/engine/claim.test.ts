import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Branch } from '../../src/catalog/branch.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { cancelUnbegun, postponeOperation } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { claim } from '../../src/engine/claim.ts'
import { applyConfigOperation } from '../../src/operations/apply_config.ts'
import { createBranch } from '../../src/operations/create_branch.ts'
import { createTimeline } from '../../src/operations/create_timeline.ts'
import { deleteTenant } from '../../src/operations/delete_tenant.ts'
import { deleteTimeline } from '../../src/operations/delete_timeline.ts'
import { requestOperation } from '../../src/operations/request.ts'
import { startCompute } from '../../src/operations/start_compute.ts'
import { suspendCompute } from '../../src/operations/suspend_compute.ts'
import { until } from '../processes.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { finish, HOST, newBranch, newProject, queue, read, take, takeAll, vacancyFor } from './operations.ts'

// The statement that selects due operations, with the locks of the real actions. No worker runs here.
let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const ids = (operations: readonly { id: string }[]) => operations.map(({ id }) => id)
const subject = ({ account_id, project_id, id }: Branch) => ({ account_id, project_id, branch_id: id })
const start = (catalog: Catalog, branch: Branch) =>
  catalog.transaction((tx) => requestOperation(tx, startCompute, subject(branch), { reason: 'request' }))
const suspend = (catalog: Catalog, branch: Branch) =>
  catalog.transaction((tx) => requestOperation(tx, suspendCompute, subject(branch), { reason: 'request' }))
const branchOff = (catalog: Catalog, child: Branch, parent: Branch) =>
  catalog.transaction((tx) => requestOperation(tx, createBranch, subject(child), { parent_id: parent.id }))

test('operations of one branch run in order, and those of different branches concurrently', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const a = await newBranch(catalog, project)
    const b = await newBranch(catalog, project)
    const first = await start(catalog, a)
    const second = await suspend(catalog, a)
    const third = await start(catalog, a)
    const other = await start(catalog, b)
    assert.deepEqual(ids(await takeAll(catalog)), ids([first, other]))
    await finish(catalog, first)
    assert.deepEqual(ids(await takeAll(catalog)), ids([second, other]))
    // Queueing behind a failed operation is not a dependency on it.
    await finish(catalog, second, 'failed', 'broken')
    assert.deepEqual(ids(await takeAll(catalog)), ids([third, other]))
    assert.equal((await read(catalog, third.id)).error, null)
  }))

test('clones of one parent run concurrently; its starts, suspends and changes pass them, its removal waits', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const parent = await newBranch(catalog, project)
    const made = []
    for (let number = 1; number <= 20; number++) {
      made.push(await branchOff(catalog, await newBranch(catalog, project, parent), parent))
    }
    const started = await start(catalog, parent)
    const configured = await catalog.transaction((tx) =>
      requestOperation(tx, applyConfigOperation, subject(parent), {}),
    )
    const suspended = await suspend(catalog, parent)
    const removed = await catalog.transaction((tx) => requestOperation(tx, deleteTimeline, subject(parent), {}))
    for (const passing of [started, configured, suspended]) {
      assert.deepEqual(ids(await takeAll(catalog)), ids([...made, passing]))
      await finish(catalog, passing)
    }
    assert.ok(!ids(await takeAll(catalog)).includes(removed.id))
    for (const each of made) await finish(catalog, each)
    assert.deepEqual(ids(await takeAll(catalog)), [removed.id])
  }))

test('a clone waits for an earlier start of its parent', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const parent = await newBranch(catalog, project)
    const started = await start(catalog, parent)
    const made = await branchOff(catalog, await newBranch(catalog, project, parent), parent)
    assert.deepEqual(ids(await takeAll(catalog)), [started.id])
    await finish(catalog, started)
    assert.deepEqual(ids(await takeAll(catalog)), [made.id])
  }))

test('create_timeline and delete_tenant lock their whole project, and no other project', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const elsewhere = await start(catalog, await newBranch(catalog, await newProject(catalog)))
    const branch = await newBranch(catalog, project)
    const ask = (action: typeof createTimeline) =>
      catalog.transaction((tx) => requestOperation(tx, action, subject(branch), {}))
    const created = await ask(createTimeline)
    const started = await start(catalog, branch)
    const deleted = await ask(deleteTenant)
    const late = await start(catalog, branch)
    assert.deepEqual(ids(await takeAll(catalog)), ids([elsewhere, created]))
    await finish(catalog, created)
    assert.deepEqual(ids(await takeAll(catalog)), ids([elsewhere, started]))
    await finish(catalog, started)
    assert.deepEqual(ids(await takeAll(catalog)), ids([elsewhere, deleted]))
    await finish(catalog, deleted)
    assert.deepEqual(ids(await takeAll(catalog)), ids([elsewhere, late]))
  }))

test('an operation that depends on a failed one is claimed at its failure step, with the cause', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const parent = await newBranch(catalog, project)
    const child = await newBranch(catalog, project, parent)
    const grandchild = await newBranch(catalog, project, child)
    const made = await branchOff(catalog, child, parent)
    const needy = [await start(catalog, child), await branchOff(catalog, grandchild, child)]
    await takeAll(catalog)
    await finish(catalog, made, 'failed', 'the disk is full')
    for (const operation of needy) {
      const due = await take(catalog)
      assert.equal(due?.id, operation.id)
      assert.equal(due.step, 'failure')
      assert.equal(due.error, `dependency failed: create_branch ${made.id}: the disk is full`)
      await finish(catalog, due, 'failed', due.error)
    }
  }))

test('while an operation is being claimed, the next one of its branch is not claimed', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const branch = await newBranch(catalog, project)
    const first = await start(catalog, branch)
    const second = await start(catalog, branch)
    await catalog.transaction(async (tx) => {
      assert.equal((await claim(tx, vacancyFor('start_compute'), HOST)).due[0]?.id, first.id)
      assert.equal(await take(catalog), undefined)
    })
    await finish(catalog, first)
    assert.equal((await take(catalog))?.id, second.id)
  }))

test('a cancel ends only operations that have not begun', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const branch = await newBranch(catalog, project)
    const other = await newBranch(catalog, project)
    const begun = await start(catalog, branch)
    const waiting = await suspend(catalog, branch)
    const elsewhere = await start(catalog, other)
    // Claimed, but not yet committed: the cancel waits and then finds that it has begun.
    let cancelled: Promise<void> | undefined
    await catalog.transaction(async (tx) => {
      assert.equal((await claim(tx, vacancyFor('start_compute'), HOST)).due[0]?.id, begun.id)
      cancelled = catalog.transaction((its) =>
        cancelUnbegun(its, project.id, { branchId: branch.id }, 'it was deleted'),
      )
      await until('the cancel waits for the claim', () => catalog.row(sql`select from pg_locks where not granted`))
    })
    await cancelled
    assert.equal((await read(catalog, begun.id)).status, 'running')
    assert.equal((await read(catalog, elsewhere.id)).status, 'scheduling')
    const ended = await read(catalog, waiting.id)
    assert.deepEqual([ended.status, ended.error], ['failed', 'cancelled: it was deleted'])
    assert.ok(ended.finished_at)
  }))

test('each claim raises generation and attempts; the deadline counts from the first claim', () =>
  catalogs.with(async ({ catalog }) => {
    await queue(catalog, await newProject(catalog))
    const first = await take(catalog)
    const { deadline_at } = await read(catalog, first?.id ?? '')
    const second = await take(catalog)
    assert.deepEqual([first?.generation, first?.attempts], [1, 1])
    assert.deepEqual([second?.generation, second?.attempts], [2, 2])
    assert.equal((await read(catalog, first?.id ?? '')).deadline_at, deadline_at)
  }))

test('an operation past its deadline or its attempts is claimed at its failure step, with the cause', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const overdue = await queue(catalog, project)
    await catalog.rows(
      sql`update operation set deadline_at = now() - interval '1 second', error = 'no luck' where id = ${overdue.id}`,
    )
    const due = await take(catalog)
    assert.deepEqual([due?.step, due?.error], ['failure', 'not done within 60 s; last: no luck'])
    await finish(catalog, overdue, 'failed')

    const worn = await queue(catalog, project)
    await catalog.rows(sql`update operation set attempts = 20 where id = ${worn.id}`)
    const given = await take(catalog)
    assert.deepEqual(
      [given?.step, given?.attempts, given?.error],
      ['failure', 1, 'given up after 20 attempts at begun'],
    )
    // The failure step has a deadline of its own, and the error is kept.
    const again = await take(catalog)
    assert.deepEqual([again?.step, again?.attempts, again?.error], ['failure', 2, given?.error])
    assert.ok(((await read(catalog, worn.id)).deadline_at ?? '') > new Date().toISOString())
  }))

test('an operation is not due before run_at, unless the clock has stepped back', () =>
  catalogs.with(async ({ catalog }) => {
    const { id } = await queue(catalog, await newProject(catalog))
    await catalog.rows(sql`update operation set run_at = now() + interval '1 hour' where id = ${id}`)
    assert.equal(await take(catalog), undefined)
    await catalog.rows(sql`update operation set updated_at = run_at - interval '10 seconds' where id = ${id}`)
    assert.equal((await take(catalog))?.id, id)
  }))

test('a postponed operation does not begin earlier when the clock steps back', () =>
  catalogs.with(async ({ catalog }) => {
    const { id } = await queue(catalog, await newProject(catalog))
    await catalog.transaction((tx) => postponeOperation(tx, id, 24))
    // As if it had been postponed while the clock was an hour ahead.
    await catalog.rows(
      sql`update operation set run_at = run_at + interval '1 hour', updated_at = updated_at + interval '1 hour'
           where id = ${id}`,
    )
    assert.equal(await take(catalog), undefined)
    await catalog.rows(sql`update operation set run_at = now() where id = ${id}`)
    assert.equal((await take(catalog))?.id, id)
  }))

test('a worker does not claim an action that it does not know', () =>
  catalogs.with(async ({ catalog }) => {
    const { id } = await queue(catalog, await newProject(catalog), { action: 'invented_later' })
    assert.equal(await take(catalog), undefined)
    assert.equal((await read(catalog, id)).status, 'scheduling')
  }))

test('a claim reads only due operations, however many have ended', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const { id } = await queue(catalog, project)
    await finish(catalog, { id })
    await catalog.rows(sql`
      insert into operation
        (id, seq, account_id, project_id, action, status, input, step, excludes, shares, passes_shared, depends_on,
         deadline_seconds, created_at, updated_at, finished_at)
      select gen_random_uuid(), -n, account_id, project_id, action, status, input, step, excludes, shares,
             passes_shared, depends_on, deadline_seconds, created_at - n * interval '1 s', updated_at, finished_at
        from operation, generate_series(1, 20000) n`)
    await catalog.rows(sql`vacuum analyze operation`)
    const wholeReads = async () => {
      await catalog.rows(sql`select pg_stat_force_next_flush()`)
      const row = await catalog.row<{ seq_scan: number }>(
        sql`select seq_scan from pg_stat_user_tables where relname = 'operation'`,
      )
      return row?.seq_scan
    }
    const earlier = await wholeReads()
    // More often than Postgres needs to settle on a generic plan for a prepared statement.
    for (let time = 1; time <= 10; time++) {
      const { id: queued } = await queue(catalog, project)
      assert.equal((await take(catalog))?.id, queued)
      await finish(catalog, { id: queued })
    }
    assert.equal(await wholeReads(), earlier)
  }))

test('the first claim of what a request queued waits for the disk, later ones do not', () =>
  catalogs.with(async ({ catalog }) => {
    const branch = await newBranch(catalog, await newProject(catalog))
    const waitsForDisk = () =>
      catalog.transaction(async (tx) => {
        assert.equal((await claim(tx, vacancyFor('start_compute'), HOST)).due.length, 1)
        const [row] = await tx.rows<{ it: string }>(sql`select current_setting('synchronous_commit') as it`)
        return row?.it
      })
    const requested = await catalog.transaction(
      (tx) => requestOperation(tx, startCompute, subject(branch), { reason: 'request' }),
      { requestId: 'request-1' },
    )
    assert.deepEqual([await waitsForDisk(), await waitsForDisk()], ['on', 'off'])
    await finish(catalog, requested)
    await start(catalog, branch)
    assert.equal(await waitsForDisk(), 'off')
  }))
