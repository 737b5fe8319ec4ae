import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { connect, query } from '../clients.ts'
import { refused, send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { branchOff, firstPlace, type Place } from '../project.ts'

/* A moment of a branch is looked at before a restore; a branch may keep its past for longer or shorter than others. */

let neap: Neap
let main: Place

before(async () => {
  neap = await startNeap()
  main = await firstPlace(neap)
})

after(() => neap?.stop())

const cli = (...args: string[]) => neapRun(args, envOf(neap.ready.data_dir))

const sql = (statements: string, { uri }: Place = main) => query<{ at: string }>(neap, uri, statements)

/** The time now, to the microsecond. */
async function now(): Promise<string> {
  const [row] = await sql(`select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`)
  return row?.at ?? ''
}

async function branchNames(): Promise<string[]> {
  const { project_id } = main
  const { branches } = await neap.call('GET /projects/:project_id/branches', {
    params: { project_id },
    query: { limit: 100, include_deleted: true },
  })
  return branches.map(({ name }) => name).sort()
}

test('a moment is compared with now, by the schema and by the rows of each table', async () => {
  await sql('create table kept as select 1 as n from generate_series(1, 3)')
  await sql('create table dropped as select 1 as n')
  await sql('create schema "Ap""art"')
  await sql(`create table "Ap""art"."t'" (n int) partition by range (n)`)
  await sql(`create table "Ap""art".part partition of "Ap""art"."t'" for values from (0) to (9)`)
  await sql(`insert into "Ap""art"."t'" values (1), (2)`)
  const then = await now()
  await sql('insert into kept values (2), (3)')
  await sql('alter table kept add column later text')
  await sql('drop table dropped')
  await sql('create materialized view made as select 1 as n')

  const names = await branchNames()
  const compared = await cli('branches', 'at', then, '--json')
  assert.equal(compared.code, 0, compared.stderr)
  const { tables, schema_diff, database } = JSON.parse(compared.stdout) as {
    tables: unknown
    schema_diff: string
    database: string
  }
  const row = (schema_name: string, table_name: string, rows_then: number | null, rows_now: number | null) => ({
    schema_name,
    table_name,
    rows_then,
    rows_now,
  })
  assert.deepEqual(tables, [
    row('Ap"art', 'part', 2, 2),
    row('public', 'dropped', 1, null),
    row('public', 'kept', 3, 5),
    row('public', 'made', null, 1),
  ])
  assert.equal(database, 'neondb')
  assert.match(schema_diff, /^-CREATE TABLE public\.dropped/m)
  assert.match(schema_diff, /^\+ {4}later text/m)
  assert.deepEqual(await branchNames(), names)

  const text = await cli('branches', 'at', then, 'main', '--keep', 'before')
  assert.match(text.stdout, /^TABLE +ROWS THEN +ROWS NOW\nAp"art\.part +2 +2\npublic\.dropped +1 +-\n/)
  assert.deepEqual(await branchNames(), ['before', ...names])
  const beyond = await cli('branches', 'at', '2020-01-01T00:00:00Z')
  assert.deepEqual([beyond.code, beyond.stdout], [1, ''])
  assert.match(beyond.stderr, /is before the history of the branch, which goes from 20\S+ until now/)
})

test('rows are not counted in a table that is locked, and those of others are', async () => {
  const { project_id, branch_id } = main
  const session = await connect(neap, main.uri)
  await session.query('begin')
  await session.query('lock table kept')
  const { tables } = await neap.call('GET /projects/:project_id/branches/:branch_id/tables', {
    params: { project_id, branch_id },
    query: { db_name: 'neondb' },
  })
  await session.end()
  assert.deepEqual(
    tables.map(({ table_name, rows }) => [table_name, rows]),
    [
      ['part', 2],
      ['kept', undefined],
      ['made', 1],
    ],
  )
  const path = `/projects/${project_id}/branches/${branch_id}/tables`
  for (const name of ['neap', 'template1', 'nowhere'])
    refused(await send(neap, 'GET', `${path}?db_name=${name}`), 404, 'NOT_FOUND', /not found/)
})

test('a branch keeps its past for as long as it says itself, or as its project says', async () => {
  const { project_id, branch_id } = main
  const params = { project_id, branch_id }
  const keep = (history_retention_seconds: number | null) =>
    neap.call('PATCH /projects/:project_id/branches/:branch_id', {
      params,
      body: { branch: { history_retention_seconds } },
    })
  const at = new Date(Date.now() - 2_000).toISOString()
  const branchAt = () =>
    send(neap, 'POST', `/projects/${project_id}/branches`, {
      body: { branch: { parent_id: branch_id, parent_timestamp: at } },
    })
  assert.equal((await keep(0)).branch.history_retention_seconds, 0)
  refused(await branchAt(), 422, 'NOT_ALLOWED', /is before the history of the branch/)
  const { project } = await neap.call('PATCH /projects/:project_id', {
    params: { project_id },
    body: { project: { history_retention_seconds: 3_024_000 } },
  })
  assert.equal(project.history_retention_seconds, 3_024_000)
  refused(await branchAt(), 422, 'NOT_ALLOWED', /is before the history of the branch/)
  assert.equal((await keep(null)).branch.history_retention_seconds, undefined)
  assert.equal((await branchAt()).status, 201)

  const path = `/projects/${project_id}/branches/${branch_id}`
  for (const history_retention_seconds of [-1, 3_024_001, 1.5])
    refused(
      await send(neap, 'PATCH', path, { body: { branch: { history_retention_seconds } } }),
      400,
      'INVALID_REQUEST',
      /history_retention_seconds/,
    )
  assert.match((await cli('branches', 'update', 'main', '--history', '14d')).stdout, /^HISTORY +14d$/m)
  assert.doesNotMatch((await cli('branches', 'update', 'main', '--history', 'project')).stdout, /^HISTORY/m)
  assert.match((await cli('projects', 'update', 'first', '--history', '36h')).stdout, /^HISTORY +36h$/m)
})

test('a branch gets newer data from its parent while its own children are kept', async () => {
  const child = await branchOff(neap, main)
  await sql('create table own as select 7 as n', child)
  const grandchild = await branchOff(neap, child)
  await sql('create table newer as select 8 as n')
  const refreshed = await cli('branches', 'reset', child.branch_id, '--preserve-under-name', 'child-before', '--wait')
  assert.equal(refreshed.code, 0, refreshed.stderr)
  assert.deepEqual(await sql('select n from newer', child), [{ n: 8 }])
  await assert.rejects(sql('select n from own', child), /does not exist/)
  assert.deepEqual(await sql('select n from own', grandchild), [{ n: 7 }])
  const { project_id } = main
  const { branches } = await neap.call('GET /projects/:project_id/branches', {
    params: { project_id },
    query: { limit: 100 },
  })
  const kept = branches.find(({ name }) => name === 'child-before')
  assert.equal(branches.find(({ id }) => id === grandchild.branch_id)?.parent_id, kept?.id)
})
