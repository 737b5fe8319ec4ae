import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { migrate, requireCurrentTables } from '../../src/catalog/migrate.ts'
import { sql } from '../../src/catalog/sql.ts'
import { describeSchema, SCHEMA_FILE } from '../schema.ts'
import { type Catalogs, type OwnCatalog, startCatalogs } from './catalogs.ts'

/* A catalog is served only by a version whose migrations it has, with the same text. */

let catalogs: Catalogs

before(async () => {
  catalogs = await startCatalogs()
})

after(() => catalogs.close())

/** A migration that may be applied a second time. */
const REPEATABLE = '0030_migration_readers.sql'

test('the migrations make the tables of docs/schema.txt (make schema writes it)', () =>
  catalogs.with(async ({ catalog }) => {
    assert.equal(await describeSchema(catalog), readFileSync(SCHEMA_FILE, 'utf8'))
  }))

test('a catalog whose migration had another text is refused', () =>
  catalogs.with(async ({ url, catalog }) => {
    await catalog.rows(sql`update migration set checksum = 'another' where name like '0002%'`)
    await assert.rejects(migrate(url), /made by a version of Neap with another 0002_api.sql/)
    await assert.rejects(requireCurrentTables(catalog), /another 0002_api.sql/)
  }))

test('a catalog of a newer version is refused', () =>
  catalogs.with(async ({ url, catalog }) => {
    await catalog.rows(sql`insert into migration (name) values ('9999_later.sql')`)
    await assert.rejects(migrate(url), /made by a newer Neap \(it has 9999_later.sql\)/)
    await assert.rejects(requireCurrentTables(catalog), /newer Neap/)
  }))

test('a part does not start on a catalog that lacks a migration', () =>
  catalogs.with(async ({ url, catalog }) => {
    await requireCurrentTables(catalog)
    await catalog.rows(sql`delete from migration where name = ${REPEATABLE}`)
    await assert.rejects(requireCurrentTables(catalog), /lacks \d{4}_\w+\.sql: start neap up/)
    assert.equal(await migrate(url), 1)
    await requireCurrentTables(catalog)
  }))

test('a catalog from before checksums gets them', () =>
  catalogs.with(async ({ url, catalog }) => {
    await catalog.rows(sql`alter table migration drop column checksum`)
    assert.equal(await migrate(url), 0)
    assert.equal(await catalog.row(sql`select from migration where checksum is null`), undefined)
    await requireCurrentTables(catalog)
  }))

test('a migration that waits for a lock lets others pass, and goes on when it is free', () =>
  catalogs.with(async (own) => {
    const held = await lockedMigrations(own)
    await assert.rejects(migrate(own.url, 1), /keeps a table locked that \d{4}_\w+\.sql changes/)
    const migrated = migrate(own.url)
    await held.release()
    assert.equal(await migrated, 1)
  }))

/** Makes a migration due, and keeps its record from being written. */
async function lockedMigrations({ url, catalog }: OwnCatalog) {
  await catalog.rows(sql`delete from migration where name = ${REPEATABLE}`)
  const holder = new pg.Client({ connectionString: url })
  await holder.connect()
  await holder.query('begin; lock table migration in share mode')
  return { release: () => holder.end() }
}
