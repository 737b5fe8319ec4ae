import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { readCourse } from '../../src/catalog/operation.ts'
import { OperationFailed, wait } from '../../src/engine/definition.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { newProject, queue } from './operations.ts'
import { during, ended, nothing, run, toil } from './runners.ts'

/* The records of an operation's steps. */

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

test('steps are recorded with their failures, and a wait is not', () =>
  catalogs.with(async ({ catalog }) => {
    let tries = 0
    const definition = toil({
      async begun() {
        if (++tries === 1) throw new Error('the first attempt')
      },
      async second() {
        return ++tries === 3 ? wait(0, 'for a moment') : undefined
      },
    })
    await during([run(catalog, definition)], async () => {
      const operation = await queue(catalog, await newProject(catalog))
      await ended(catalog, operation)
      const steps = (await readCourse(catalog, operation.id))?.steps ?? []
      assert.deepEqual(
        steps.map(({ step, error }) => [step, error]),
        [
          ['begun', 'the first attempt'],
          ['begun', undefined],
          ['second', undefined],
        ],
      )
      const times = steps.map(({ at }) => Date.parse(at))
      assert.deepEqual(
        times,
        times.toSorted((one, other) => one - other),
      )
    })
  }))

test('a permanent failure is recorded with the step that undoes what was begun', () =>
  catalogs.with(async ({ catalog }) => {
    const definition = toil({
      async begun() {
        throw new OperationFailed('x'.repeat(2_000))
      },
    })
    await during([run(catalog, definition)], async () => {
      const operation = await queue(catalog, await newProject(catalog))
      await ended(catalog, operation)
      const steps = (await readCourse(catalog, operation.id))?.steps ?? []
      assert.deepEqual(
        steps.map(({ step, error }) => [step, error]),
        [
          ['begun', 'x'.repeat(300)],
          ['failure', undefined],
        ],
      )
    })
  }))

test('of many records the first and the latest stay', () =>
  catalogs.with(async ({ catalog }) => {
    let turns = 0
    const definition = toil({
      begun: async () => ({ goto: 'again' }),
      again: async () => (++turns < 60 ? { goto: 'begun' } : undefined),
    })
    await during([run(catalog, definition)], async () => {
      const operation = await queue(catalog, await newProject(catalog))
      await ended(catalog, operation)
      const steps = (await readCourse(catalog, operation.id))?.steps ?? []
      assert.deepEqual([steps.length, steps[0]?.step, steps.at(-1)?.step], [40, 'begun', 'again'])
    })
  }))

test('an operation that has not begun names those that it stands behind', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const first = await queue(catalog, project, { excludes: ['one'] })
    const unrelated = await queue(catalog, project, { excludes: ['other'], shares: [] })
    const second = await queue(catalog, project, { excludes: ['one'] })
    const dependent = await queue(catalog, project, { excludes: [], shares: [], depends_on: [unrelated.id] })
    const behind = async ({ id }: { id: string }) => (await readCourse(catalog, id))?.behind.map((each) => each.id)
    assert.deepEqual(await behind(first), [])
    assert.deepEqual(await behind(second), [first.id])
    assert.deepEqual(await behind(dependent), [unrelated.id])
    await during([run(catalog, toil({ begun: nothing }))], async () => {
      await ended(catalog, first, second, dependent)
      assert.deepEqual(await behind(second), [])
    })
  }))
