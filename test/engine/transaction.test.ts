import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { findEndpoint } from '../../src/catalog/endpoint.ts'
import { sql } from '../../src/catalog/sql.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { newBranch, newEndpoint, newProject } from './operations.ts'

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

test('the last statement of a transaction, which is not awaited, is committed with it', () =>
  catalogs.with(async ({ catalog }) => {
    const { id } = await newEndpoint(catalog, await newBranch(catalog, await newProject(catalog)))
    await catalog.transaction(async (tx) => tx.last(sql`update endpoint set current_state = 'active' where id = ${id}`))
    assert.equal((await findEndpoint(catalog, id))?.current_state, 'active')
  }))

test('a failing last statement rolls back its transaction and rejects it', () =>
  catalogs.with(async ({ catalog }) => {
    const { id, current_state } = await newEndpoint(catalog, await newBranch(catalog, await newProject(catalog)))
    const failing = catalog.transaction(async (tx) => {
      await tx.rows(sql`update endpoint set current_state = 'active' where id = ${id}`)
      tx.last(sql`select 1 / (select 0)`)
    })
    await assert.rejects(failing, { code: '22012' })
    assert.equal((await findEndpoint(catalog, id))?.current_state, current_state)
    assert.deepEqual(await catalog.rows(sql`select 1 as one`), [{ one: 1 }])
  }))
