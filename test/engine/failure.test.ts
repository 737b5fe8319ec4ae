import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '../../src/catalog/sql.ts'
import { FAILURE } from '../../src/engine/claim.ts'
import { OperationFailed, wait, watching } from '../../src/engine/definition.ts'
import { until } from '../processes.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { newProject, type OperationRow, queue, read } from './operations.ts'
import { during, ended, nothing, run, toil } from './runners.ts'

// Operations with failing steps: retried, given up, or past their deadline.
let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

test('a temporary failure is retried after a delay, and shown meanwhile', () =>
  catalogs.with(async ({ catalog }) => {
    const seen: OperationRow[] = []
    const definition = toil({
      async begun({ id }, _context, tx) {
        seen.push(await read(tx, id))
        if (seen.length <= 2) throw new Error(`attempt ${seen.length} failed`)
      },
    })
    await during([run(catalog, definition)], async () => {
      const [operation] = await ended(catalog, await queue(catalog, await newProject(catalog)))
      assert.deepEqual(
        seen.map(({ status, failures_count, error }) => [status, failures_count, error]),
        [
          ['running', 0, null],
          ['running', 1, 'attempt 1 failed'],
          ['running', 2, 'attempt 2 failed'],
        ],
      )
      for (const { retry_at, updated_at } of seen.slice(1)) assert.ok(retry_at && updated_at >= retry_at)
      assert.equal(operation?.status, 'finished')
      assert.deepEqual([operation.failures_count, operation.error, operation.retry_at], [2, null, null])
    })
  }))

test('retries are limited by the deadline, and attempts without an outcome by their number', () =>
  catalogs.with(async ({ catalog }) => {
    const hurry = (id: string) =>
      catalog.rows(sql`
        with now as (update operation set run_at = clock_timestamp() where id = ${id})
        select pg_notify('operation_due', '')`)
    let tries = 0
    const definition = toil({
      async begun() {
        if (++tries <= 2) throw new Error('still no room')
      },
    })
    const project = await newProject(catalog)
    const [patient, deadly] = [await queue(catalog, project), await queue(catalog, project)]
    await catalog.rows(sql`update operation set failures_count = 40, attempts = 19 where id = ${patient.id}`)
    await catalog.rows(sql`update operation set attempts = 20 where id = ${deadly.id}`)
    await during([run(catalog, definition)], async () => {
      const [one] = await ended(catalog, deadly)
      assert.match(one?.error ?? '', /^given up after 20 attempts/)
      await until('it was tried', async () => (await read(catalog, patient.id)).failures_count === 41)
      await hurry(patient.id)
      await until('it was tried again', async () => (await read(catalog, patient.id)).failures_count === 42)
      await hurry(patient.id)
      const [other] = await ended(catalog, patient)
      assert.equal(other?.status, 'finished')
    })
  }))

test('OperationFailed is final: onFailure runs once and the message stays', () =>
  catalogs.with(async ({ catalog }) => {
    const calls: string[] = []
    const definition = toil(
      {
        async begun() {
          calls.push('begun')
          throw new OperationFailed('there is no such thing')
        },
        next: nothing,
      },
      async ({ step, error }) => void calls.push(`${step}: ${error}`),
    )
    await during([run(catalog, definition)], async () => {
      const [operation] = await ended(catalog, await queue(catalog, await newProject(catalog)))
      assert.deepEqual(calls, ['begun', 'failure: there is no such thing'])
      assert.deepEqual([operation?.status, operation?.error], ['failed', 'there is no such thing'])
      assert.deepEqual([operation?.failures_count, operation?.retry_at], [1, null])
    })
  }))

test('an operation past its deadline fails, between two steps too', () =>
  catalogs.with(async ({ catalog }) => {
    const definition = toil({
      async begun({ id }, _context, tx) {
        await tx.rows(sql`update operation set deadline_at = clock_timestamp() where id = ${id}`)
      },
      async endless() {
        return wait(0, 'for ever')
      },
    })
    await during([run(catalog, definition)], async () => {
      const [operation] = await ended(catalog, await queue(catalog, await newProject(catalog)))
      assert.deepEqual([operation?.status, operation?.error], ['failed', 'not done within 60 s; stopped at endless'])
    })
  }))

test('watched work has no deadline while it advances, and is overdue when it stands still', () =>
  catalogs.with(async ({ catalog }) => {
    let turns = 0
    const definition = toil({
      async begun({ id }, _context, tx) {
        await tx.rows(sql`update operation set deadline_at = clock_timestamp() where id = ${id}`)
        return watching(Promise.resolve(), `${Math.min(++turns, 3)} of 4 replayed`)
      },
    })
    await during([run(catalog, definition)], async () => {
      const [operation] = await ended(catalog, await queue(catalog, await newProject(catalog)))
      assert.equal(turns, 4)
      assert.deepEqual([operation?.status, operation?.error], ['failed', 'not done within 60 s; stopped at begun'])
    })
  }))

test('onFailure may wait, and is retried', () =>
  catalogs.with(async ({ catalog }) => {
    let calls = 0
    const definition = toil({ begun: () => Promise.reject(new OperationFailed('no')) }, async () => {
      calls++
      if (calls === 1) throw new Error('and that failed as well')
      return calls < 4 ? wait(0, 'still stopping') : undefined
    })
    await during([run(catalog, definition)], async () => {
      const [operation] = await ended(catalog, await queue(catalog, await newProject(catalog)))
      assert.equal(calls, 4)
      assert.deepEqual([operation?.status, operation?.error], ['failed', 'no'])
    })
  }))

test('an onFailure that keeps failing or waiting does not keep its operation unfinished', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const failing = await queue(catalog, project, { step: FAILURE })
    await catalog.rows(sql`update operation set attempts = 4, error = 'why' where id = ${failing.id}`)
    const endless = await queue(catalog, project, { step: FAILURE })
    await catalog.rows(sql`update operation set error = 'because' where id = ${endless.id}`)
    const definition = toil({ begun: nothing }, async ({ id }, _context, tx) => {
      if (id === failing.id) throw new Error('no use')
      await tx.rows(sql`update operation set deadline_at = clock_timestamp() where id = ${id}`)
      return wait(0, 'for ever')
    })
    await during([run(catalog, definition)], async () => {
      const operations = await ended(catalog, failing, endless)
      assert.deepEqual(
        operations.map(({ status, error }) => [status, error]),
        [
          ['failed', 'why'],
          ['failed', 'because'],
        ],
      )
    })
  }))
