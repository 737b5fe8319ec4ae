import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { noteCrash, setActive, setIdle } from '../../src/catalog/compute.ts'
import { findEndpoint } from '../../src/catalog/endpoint.ts'
import { findOperation, type Operation } from '../../src/catalog/operation.ts'
import { lockProject, type Project } from '../../src/catalog/project.ts'
import { sql } from '../../src/catalog/sql.ts'
import { cancel } from '../../src/commands/cancel_operation.ts'
import { claim, end, lockForStep } from '../../src/engine/claim.ts'
import { messageOf } from '../../src/errors.ts'
import { queueCheck } from '../../src/operations/check_availability.ts'
import { createBranch } from '../../src/operations/create_branch.ts'
import { requestOperation } from '../../src/operations/request.ts'
import { queueStart, requestStart, startCompute } from '../../src/operations/start_compute.ts'
import { queueSuspend } from '../../src/operations/suspend_compute.ts'
import { until } from '../processes.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { finish, HOST, newBranch, newEndpoint, newProject, queue, read, take, vacancyFor } from './operations.ts'
import { during, ended, run, toil } from './runners.ts'

// Concurrent cancels, claims and steps of one operation; and clock steps while operations run.
let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

/** Cancels as the API does; returns the error of the operation or of the refusal. */
function cancelled(catalog: Catalog, project: Project, { id }: Operation): Promise<string> {
  return catalog
    .transaction(async (tx) => {
      await lockProject(tx, project.account_id, project.id)
      const found = await findOperation(tx, project.account_id, project.id, id)
      return (await cancel(tx, found as Operation)).error ?? ''
    })
    .catch(messageOf)
}

const HAS_ENDED = 'The operation is failed; only one that has not begun can be cancelled.'
const COMPUTE = { host: '/nowhere', port: 1, store: 'br-a', hostId: HOST }

const HAS_BEGUN = 'The operation is running; only one that has not begun can be cancelled.'

test('one of many concurrent cancels succeeds, and the others are refused', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const operation = await queue(catalog, project)
    const answers = await Promise.all(Array.from({ length: 8 }, () => cancelled(catalog, project, operation)))
    assert.deepEqual(answers.sort(), [...Array<string>(7).fill(HAS_ENDED), 'cancelled: by request'])
    const events = await catalog.rows(sql`select 1 from operation_event where operation_id = ${operation.id}`)
    assert.equal(events.length, 2)
  }))

test('a client that connects as a start ends requests no second start', () =>
  catalogs.with(async ({ catalog, open }) => {
    const endpoint = await newEndpoint(catalog, await newBranch(catalog, await newProject(catalog)))
    const compute = { ...COMPUTE, id: 'seven', startedAt: new Date() }
    const worker = open()
    const starts = sql`select id from operation where endpoint_id = ${endpoint.id}`
    for (let round = 1; round <= 100; round++) {
      await setIdle(catalog, endpoint.id, 'request')
      const id = (await requestStart(catalog, endpoint, undefined)) as string
      const ending = worker.transaction(async (tx) => {
        await setActive(tx, endpoint.id, endpoint.branch_id, compute)
        end(tx, id, 'finished', null)
      })
      const asked = await Promise.all(Array.from({ length: 8 }, () => requestStart(catalog, endpoint, undefined)))
      await ending
      assert.deepEqual(
        [...new Set(asked)].filter((other) => other !== undefined && other !== id),
        [],
      )
      assert.equal((await catalog.rows(starts)).length, round)
    }
  }))

test('pending_state of an endpoint follows the last of its unfinished operations', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await newEndpoint(catalog, await newBranch(catalog, await newProject(catalog)))
    const compute = { ...COMPUTE, id: 'seven', startedAt: new Date() }
    await setActive(catalog, endpoint.id, endpoint.branch_id, compute)
    const pending = async () => (await findEndpoint(catalog, endpoint.id))?.pending_state
    const [suspended, started] = await catalog.transaction(async (tx) => [
      await queueSuspend(tx, endpoint, 'request'),
      await queueStart(tx, endpoint, 'request'),
    ])
    assert.equal(await pending(), 'active')
    await catalog.transaction(async (tx) => {
      await setIdle(tx, endpoint.id, 'request')
      end(tx, suspended.id, 'finished', null)
    })
    assert.equal(await pending(), 'active')
    const again = await queueSuspend(catalog, endpoint, 'request')
    assert.equal(await pending(), 'idle')
    await catalog.transaction((tx) => cancel(tx, again))
    assert.equal(await pending(), 'active')
    await finish(catalog, started, 'failed', 'no room')
    assert.equal(await pending(), null)
    const check = await queueCheck(catalog, endpoint)
    assert.equal(await pending(), 'active')
    await finish(catalog, check)
    assert.equal(await pending(), null)
  }))

test('the end of a replaced compute does not remove the address of its successor', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await newEndpoint(catalog, await newBranch(catalog, await newProject(catalog)))
    const compute = { ...COMPUTE, id: 'eight', startedAt: new Date() }
    await setActive(catalog, endpoint.id, endpoint.branch_id, compute)
    await noteCrash(catalog, endpoint.id, 'seven')
    assert.equal((await findEndpoint(catalog, endpoint.id))?.compute_id, 'eight')
    await noteCrash(catalog, endpoint.id, 'eight')
    assert.equal((await findEndpoint(catalog, endpoint.id))?.compute_id, null)
  }))

test('of a concurrent cancel and claim exactly one succeeds', () =>
  catalogs.with(async ({ catalog, open }) => {
    const project = await newProject(catalog)
    const began = new Set<string>()
    const definition = toil({ begun: async ({ id }) => void began.add(id) })
    const outcomes = new Set<string>()
    await during([run(open(), definition), run(open(), definition)], async () => {
      for (let number = 0; number < 100; number++) {
        const operation = await queue(catalog, project)
        const answer = await cancelled(catalog, project, operation)
        const [row] = await ended(catalog, operation)
        outcomes.add(answer)
        const isCancelled = answer === 'cancelled: by request'
        assert.deepEqual([row?.status, began.has(operation.id)], [isCancelled ? 'failed' : 'finished', !isCancelled])
      }
    })
    for (const outcome of outcomes)
      assert.match(outcome, /^cancelled: by request$|^The operation is (running|finished); only one/)
  }))

test('an operation being cancelled is not claimed, and one being claimed is not cancelled', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const operation = await queue(catalog, project)
    await assert.rejects(
      catalog.transaction(async (tx) => {
        await cancel(tx, operation)
        assert.equal(await take(catalog), undefined)
        throw new Error('never mind')
      }),
      /never mind/,
    )
    let answer: Promise<string> | undefined
    await catalog.transaction(async (tx) => {
      assert.equal((await claim(tx, vacancyFor('toil'), HOST)).due[0]?.id, operation.id)
      answer = cancelled(catalog, project, operation)
      await until('the cancel waits', () => catalog.row(sql`select from pg_locks where not granted`))
    })
    assert.equal(await answer, HAS_BEGUN)
    assert.equal(await cancelled(catalog, project, operation), HAS_BEGUN)
    assert.equal((await read(catalog, operation.id)).status, 'running')
  }))

test('operations that depend on a cancelled one fail with the cause, directly or indirectly', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const parent = await newBranch(catalog, project)
    const child = await newBranch(catalog, project, parent)
    const grandchild = await newBranch(catalog, project, child)
    const { account_id, project_id } = child
    const make = (id: string, parent_id: string) =>
      catalog.transaction((tx) =>
        requestOperation(tx, createBranch, { account_id, project_id, branch_id: id }, { parent_id }),
      )
    const made = await make(child.id, parent.id)
    const makeNext = await make(grandchild.id, child.id)
    const start = await catalog.transaction((tx) =>
      requestOperation(tx, startCompute, { account_id, project_id, branch_id: grandchild.id }, { reason: 'request' }),
    )
    assert.equal(await cancelled(catalog, project, made), 'cancelled: by request')
    const definition = (action: string) => ({ ...toil({ begun: () => Promise.reject(new Error('it began')) }), action })
    await during([run(catalog, definition('create_branch')), run(catalog, definition('start_compute'))], async () => {
      const [second, third] = await ended(catalog, makeNext, start)
      const why = `create_branch ${made.id}: cancelled: by request`
      assert.deepEqual([second?.status, second?.error], ['failed', `dependency failed: ${why}`])
      assert.deepEqual(
        [third?.status, third?.error],
        ['failed', `dependency failed: create_branch ${makeNext.id}: dependency failed: ${why}`],
      )
    })
  }))

test('an operation ends, and no step runs concurrently, when the clock steps back', () =>
  catalogs.with(async ({ catalog, open }) => {
    const project = await newProject(catalog)
    const operation = await queue(catalog, project)
    const inside = new Set<string>()
    const step = async ({ id, step: name }: { id: string; step: string }) => {
      assert.ok(!inside.has(id))
      inside.add(id)
      // Move its recorded times an hour ahead of the clock, as after such a step.
      if (name === 'begun')
        await catalog.rows(
          sql`update project set last_operation_at = last_operation_at + interval '1 hour' where id = ${project.id}`,
        )
      inside.delete(id)
    }
    const definition = toil({
      begun: async (claimed, _context, tx) => {
        await step(claimed)
        await tx.rows(sql`
          update operation
             set updated_at = updated_at + interval '1 hour', deadline_at = deadline_at + interval '1 hour'
           where id = ${claimed.id}`)
      },
      second: step,
    })
    await during([run(open(), definition, { sweepMs: 1 }), run(open(), definition, { sweepMs: 1 })], async () => {
      const [first, next] = await ended(catalog, operation, await queue(catalog, project))
      assert.deepEqual([first?.status, next?.status], ['finished', 'finished'])
      assert.ok((next?.created_at ?? '') > (first?.created_at ?? ''))
    })
  }))

test('a worker that was frozen past the deadline finds its operation failed and does not run it', () =>
  catalogs.with(async ({ catalog, open }) => {
    const operation = await queue(catalog, await newProject(catalog))
    const late = await take(catalog)
    assert.ok(late)
    await catalog.rows(sql`
      update operation set deadline_at = clock_timestamp() - interval '1 s', run_at = clock_timestamp()
       where id = ${operation.id}`)
    const calls: string[] = []
    const definition = toil({ begun: async () => void calls.push('begun') }, async ({ step }) => void calls.push(step))
    await during([run(open(), definition)], async () => {
      const [row] = await ended(catalog, operation)
      assert.deepEqual([row?.status, row?.error, calls], ['failed', 'not done within 60 s', ['failure']])
      assert.equal(await catalog.transaction((tx) => lockForStep(tx, late)), 'taken')
    })
  }))
