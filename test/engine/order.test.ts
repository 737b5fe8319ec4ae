import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { listOperations, type Operation } from '../../src/catalog/operation.ts'
import { lockProject, type Project } from '../../src/catalog/project.ts'
import { sql } from '../../src/catalog/sql.ts'
import { messageOf } from '../../src/errors.ts'
import { until } from '../processes.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { newProject, queue } from './operations.ts'

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

/**
 * Concurrent writers with `each` transactions; every third transaction inserts two operations, every fifth rolls back.
 */
async function insertConcurrently(catalog: Catalog, project: Project, writers: number, each: number): Promise<void> {
  const write = async (writer: number) => {
    for (let number = 1; number <= each; number++) {
      const work = catalog.transaction(async (tx) => {
        // Some lock the project themselves first, as requests do; the lock orders all of them.
        if (writer % 2 === 0) await lockProject(tx, project.account_id, project.id)
        await queue(tx, project)
        if (number % 3 === 0) await queue(tx, project)
        if (number % 5 === 0) throw new Error('rolled back')
      })
      await work.catch((error: unknown) => assert.equal(messageOf(error), 'rolled back'))
    }
  }
  await Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)))
}

const all = (catalog: Catalog, project: Project) =>
  catalog.rows<Operation>(sql`select * from operation where project_id = ${project.id} order by seq`)

test('seq, created_at and commit order agree under concurrent inserts', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    // Postgres delivers notifications in the order of commits.
    const committed: string[] = []
    const unlisten = await catalog.listen('operation_due', (payload) => committed.push(payload ?? ''))
    await insertConcurrently(catalog, project, 8, 25)
    const operations = await all(catalog, project)
    await until('every insert was announced', () => committed.length >= operations.length)
    unlisten()
    assert.deepEqual(
      operations.map(({ id }) => id),
      committed,
    )
    // Consecutive numbers without gaps: a rolled-back transaction uses no number.
    assert.deepEqual(
      operations.map(({ seq }) => seq),
      operations.map((_, index) => index + 1),
    )
    const times = operations.map(({ created_at }) => created_at)
    assert.deepEqual(times, [...new Set(times)].sort())
  }))

test('created_at rises even when the clock steps back', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const earliest = await queue(catalog, project)
    // As if the last one had been inserted while the clock was an hour ahead.
    await catalog.rows(
      sql`update project set last_operation_at = last_operation_at + interval '1 hour' where id = ${project.id}`,
    )
    await insertConcurrently(catalog, project, 4, 5)
    const [first, ...later] = await all(catalog, project)
    assert.equal(first?.id, earliest.id)
    const hour = Date.parse(earliest.created_at) + 3_600_000
    const times = later.map(({ created_at }) => created_at)
    assert.deepEqual(times, [...new Set(times)].sort())
    assert.ok(times.every((time) => Math.abs(Date.parse(time) - hour) <= 1))
  }))

test('paging through a growing list returns each earlier operation exactly once', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    await insertConcurrently(catalog, project, 2, 20)
    const earlier = (await all(catalog, project)).map(({ id }) => id)
    const growing = insertConcurrently(catalog, project, 4, 30)
    const seen: string[] = []
    let last: string | undefined
    for (;;) {
      const page: Operation[] = await listOperations(catalog, project.id, 3, last)
      if (page.length === 0) break
      seen.push(...page.map(({ id }) => id))
      last = page.at(-1)?.created_at
    }
    await growing
    assert.equal(new Set(seen).size, seen.length)
    assert.deepEqual(
      seen.filter((id) => earlier.includes(id)),
      earlier.toReversed(),
    )
    assert.ok((await all(catalog, project)).length > seen.length)
  }))
