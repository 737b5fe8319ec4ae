import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { type Neap, neapRun, envOf, startNeap } from '../neap.ts'
import { branchOff, type Place, suspend } from '../project.ts'
import { programsOf, withoutVector } from '../proxy/versions.ts'

/* Extensions of a Postgres of the system, and of one that the operator has chosen. */

let neap: Neap
const chosen = mkdtempSync(join(tmpdir(), 'neap-postgres-'))

before(async () => {
  const env = withoutVector() ? {} : { NEAP_POSTGRES: `17=${await programsOf(17, chosen)}` }
  neap = await startNeap({ args: ['--no-project'], env })
})

after(async () => {
  await neap?.stop()
  rmSync(chosen, { recursive: true })
})

async function projectOn(pg_version: number): Promise<Place> {
  const made = await neap.call('POST /projects', { body: { project: { pg_version } } })
  await neap.ended(made.operations)
  const [endpoint, connection] = [made.endpoints[0], made.connection_uris[0]]
  assert.ok(endpoint && connection)
  const place = { project_id: made.project.id, branch_id: made.branch.id, endpoint_id: endpoint.id }
  return { ...place, uri: connection.connection_uri }
}

/** Restores a branch from another one. */
async function restore({ project_id, branch_id }: Place, source_branch_id: string): Promise<void> {
  const { operations } = await neap.call('POST /projects/:project_id/branches/:branch_id/restore', {
    params: { project_id, branch_id },
    body: { source_branch_id },
  })
  await neap.ended(operations)
}

const withoutPostgis = existsSync('/usr/share/postgresql/15/extension/postgis.control')
  ? false
  : 'PostGIS is not installed (on Debian: postgresql-15-postgis-3, postgresql-15-partman, postgresql-15-hypopg)'

test('PostGIS, pg_partman and hypopg work for the owner of a database', { skip: withoutPostgis }, async () => {
  const place = await projectOn(15)
  await query(neap, place.uri, 'create extension postgis')
  await query(neap, place.uri, 'create table place (name text, at geography(point))')
  await query(
    neap,
    place.uri,
    `insert into place values ('Berlin', 'point(13.4 52.5)'), ('Paris', 'point(2.35 48.86)')`,
  )
  await query(neap, place.uri, 'create index on place using gist (at)')
  const distance = `select round(st_distance(a.at, b.at) / 1000)::int as km from place a, place b
                     where a.name = 'Berlin' and b.name = 'Paris'`
  assert.deepEqual(await query(neap, place.uri, distance), [{ km: 878 }])
  await query(neap, place.uri, 'create schema partman')
  await query(neap, place.uri, 'create extension pg_partman schema partman')
  await query(neap, place.uri, 'create extension hypopg')
  await query(neap, place.uri, `select * from hypopg_create_index('create index on place (name)')`)
  await suspend(neap, place)
  const child = await branchOff(neap, place)
  assert.deepEqual(await query(neap, child.uri, distance), [{ km: 878 }])
})

test('the script of an extension calls no function of a tenant as superuser', { skip: withoutPostgis }, async () => {
  const place = await projectOn(15)
  const isSuperuser = `select rolsuper from pg_roles where rolname = current_user`
  const sql = (text: string) => query(neap, place.uri, text)
  await sql('create schema topology')
  await sql(`create function topology.addtosearchpath(a text) returns text language plpgsql as
             $$ begin execute format('alter role %I superuser', session_user); return 'x'; end $$`)
  await sql('create extension postgis')
  await assert.rejects(sql('create extension postgis_topology'), {
    code: '55000',
    message: 'topology.addtosearchpath is in a schema that this extension searches',
    hint: /in a schema without functions/,
  })
  // A snapshot from before a function was made would not show it.
  await assert.rejects(sql('begin isolation level repeatable read; create extension pg_partman'), { code: '55000' })
  await sql('drop function topology.addtosearchpath(text); drop schema topology')
  await sql('create extension postgis_topology')
  assert.deepEqual(await sql(isSuperuser), [{ rolsuper: false }])
  // A type that hides one of PostGIS.
  await sql('create schema own; create type own.geometry as (x int)')
  await sql('create function own.f() returns int return 1')
  await assert.rejects(sql('create extension address_standardizer schema own'), { code: '55000' })
})

test(
  'a table of vectors with an HNSW index survives suspend, branch and restore',
  { skip: withoutVector() },
  async () => {
    const place = await projectOn(17)
    await query(neap, place.uri, 'create extension vector')
    await query(neap, place.uri, 'create table item (id int primary key, embedding vector(3))')
    await query(
      neap,
      place.uri,
      `insert into item select n, array[n % 7, n % 11, n % 13]::vector from generate_series(1, 2000) n`,
    )
    await query(neap, place.uri, 'create index on item using hnsw (embedding vector_l2_ops)')
    const nearest = async ({ uri }: Place) => {
      const plan = await query<{ 'QUERY PLAN': string }>(
        neap,
        uri,
        `explain select id from item order by embedding <-> '[1,2,3]' limit 1`,
      )
      assert.match(JSON.stringify(plan), /Index Scan using item_embedding_idx/)
      return query(neap, uri, `select embedding::text from item order by embedding <-> '[1,2,3]' limit 1`)
    }
    const expected = [{ embedding: '[1,2,3]' }]
    assert.deepEqual(await nearest(place), expected)
    await suspend(neap, place)
    assert.deepEqual(await nearest(place), expected)
    const child = await branchOff(neap, place)
    assert.deepEqual(await nearest(child), expected)
    await query(neap, child.uri, 'delete from item')
    await restore(child, place.branch_id)
    assert.deepEqual(await nearest(child), expected)
  },
)

test('what is offered is told, and what is not is refused with the reason of Postgres', async () => {
  const { postgres_versions } = await neap.call('GET /postgres_versions', {})
  const bundled = postgres_versions.find(({ version }) => version === 18)
  const names = bundled?.extensions.map(({ name }) => name) ?? []
  assert.ok(names.includes('hstore') && names.includes('pg_trgm'), names.join())
  assert.ok(!names.includes('dblink') && !names.includes('file_fdw'), names.join())
  const place = await projectOn(18)
  await query(neap, place.uri, 'create extension hstore')
  await assert.rejects(query(neap, place.uri, 'create extension file_fdw'), { code: '42501' })
  await assert.rejects(query(neap, place.uri, 'create extension pg_cron'), { code: '0A000' })
  const { data_dir } = neap.ready
  const { stdout } = await neapRun(['status', '--data-dir', data_dir], envOf(data_dir))
  assert.match(stdout, /^Postgres 18: \d+ extensions/m)
  assert.ok(existsSync(join(data_dir, 'pg')))
})

test('the catalog and computes run the Postgres 18 that the operator has chosen', async () => {
  const copiesIn = ({ ready }: Neap) => join(ready.data_dir, 'pg')
  const [bundled = ''] = readdirSync(copiesIn(neap)).filter((name) => name.startsWith('18'))
  const directory = join(chosen, '18')
  cpSync(join(copiesIn(neap), bundled), directory, { recursive: true, verbatimSymlinks: true })
  const other = await startNeap({ env: { NEAP_POSTGRES: `18=${join(directory, 'bin')}` } })
  try {
    assert.deepEqual(await query(other, other.ready.connection_uri ?? '', 'select 1 as one'), [{ one: 1 }])
    const copies = readdirSync(copiesIn(other))
    assert.match(copies.join(), /^18-[0-9a-f]+$/)
  } finally {
    await other.stop()
  }
})
