import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pg from 'pg'
import pino from 'pino'
import { deleteBranchData } from '../../src/catalog/branch.ts'
import { type Catalog, type Db, openCatalog } from '../../src/catalog/catalog.ts'
import { sql } from '../../src/catalog/sql.ts'
import { startRetentionLoop } from '../../src/loops/retention.ts'
import { until } from '../processes.ts'
import { type Catalogs, type OwnCatalog, startCatalogs } from './catalogs.ts'
import { finish, newBranch, newProject, queue } from './operations.ts'

/* Rows past their retention are removed, in batches, whatever else exists and whichever kind fails. */

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const DAYS = { operationsDays: 30, auditDays: 365, metricsDays: 30, historyMaxMb: 1_024 }
const LIVING = 20_000
const DELETED = 3_000

/** Runs clean-up until `isDone`. Returns the kinds that failed meanwhile. */
async function cleanUntil(catalog: Catalog, isDone: () => Promise<boolean>): Promise<string[]> {
  const failed: string[] = []
  const log = pino({}, { write: (line) => void failed.push((JSON.parse(line) as { kind: string }).kind) })
  const storage = { tidy: async () => {}, removeHistory: async () => 0 }
  const loop = startRetentionLoop({ catalog, config: DAYS, log, storage, hostId: 'none' })
  try {
    await until('old rows are removed', isDone)
  } finally {
    await loop.stop()
  }
  return failed
}

const count = async (db: Db, statement: ReturnType<typeof sql>): Promise<number> => (await db.rows(statement)).length

/** Inserts as many branches with an endpoint each, 1,000 in a project. */
async function insertBranches({ url }: OwnCatalog, tag: string, many: number): Promise<void> {
  await withClient(url, (client) =>
    client.query(`
      begin; set local session_replication_role = replica;
      create temporary table made on commit drop as
        select n, '${tag}-' || n / 1000 as project_id, 'br-${tag}-' || n as branch_id
          from generate_series(0, ${many} - 1) n;
      insert into project (id, account_id, name, region_id, pg_version)
        select project_id, a.id, project_id, 'local', 18 from made, account a where n % 1000 = 0;
      insert into branch (id, account_id, project_id, name, current_state, parent_id)
        select branch_id, a.id, project_id, branch_id, 'ready',
               case when n % 1000 > 0 then 'br-${tag}-' || n / 1000 * 1000 end from made, account a;
      insert into endpoint (id, account_id, project_id, branch_id, min_cu, max_cu, current_state)
        select 'ep-' || branch_id, a.id, project_id, branch_id, 0.25, 0.25, 'idle' from made, account a;
      commit; analyze`),
  )
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Rows that sessions which have ended read without an index. */
const readWhole = ({ url }: OwnCatalog): Promise<Map<string, number>> =>
  withClient(url, async (client) => {
    const { rows } = await client.query<{ name: string; rows: number }>(
      'select relname as name, seq_tup_read::float8 as rows from pg_stat_user_tables',
    )
    return new Map(rows.map(({ name, rows: read }) => [name, read]))
  })

test('deleted projects are forgotten at a cost that does not depend on what else exists', () =>
  catalogs.with(async (own) => {
    const { catalog } = own
    await newProject(catalog)
    await insertBranches(own, 'living', LIVING)
    await insertBranches(own, 'deleted', DELETED)
    for (const table of [sql`project`, sql`branch`, sql`endpoint`] as const)
      await catalog.rows(sql`
        update ${table} set deleted_at = clock_timestamp() - interval '8 days' where id like '%deleted-%'`)
    const readBefore = await readWhole(own)
    const worker = openCatalog(own.url, 2, () => {})
    const isForgotten = async () => (await count(catalog, sql`select from project where id like 'deleted-%'`)) === 0
    assert.deepEqual(await cleanUntil(worker, isForgotten), [])
    await worker.close()
    assert.equal(await count(catalog, sql`select from branch where id like 'br-deleted-%'`), 0)
    assert.equal(await count(catalog, sql`select from endpoint where id like 'ep-br-deleted-%'`), 0)
    assert.equal(await count(catalog, sql`select from branch`), LIVING)
    const read = await readWhole(own)
    // A batch may read a table once, but not again for each of its rows.
    for (const table of ['branch', 'endpoint', 'operation', 'audit'])
      assert.ok((read.get(table) ?? 0) - (readBefore.get(table) ?? 0) < LIVING * 20, `${table} ${read.get(table)}`)
  }))

test('operations and audit rows of living projects go when they are old, and only then', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const old = await queue(catalog, project)
    await finish(catalog, old)
    const long = await queue(catalog, project)
    const young = await queue(catalog, project)
    await finish(catalog, young)
    // Ids carry the time of their making.
    await catalog.rows(sql`
      update operation set id = uuidv7(interval '-31 days'), created_at = created_at - interval '31 days',
             finished_at = finished_at - interval '31 days' where id <> ${young.id}`)
    await catalog.rows(sql`
      insert into audit (request_id, action, status, created_at)
      select gen_random_uuid(), 'POST /projects', 201, clock_timestamp() - make_interval(days => 730 - n)
        from generate_series(1, 730) n`)
    const left = () => catalog.rows<{ action: string; seq: number }>(sql`select seq from operation order by seq`)
    const audited = () => count(catalog, sql`select from audit`)
    const isDone = async () => (await left()).length === 2 && (await audited()) === 365
    assert.deepEqual(await cleanUntil(catalog, isDone), [])
    assert.deepEqual(
      (await left()).map(({ seq }) => seq),
      [long.seq, young.seq],
    )
  }))

test('a branch deleted long ago is forgotten after its children, and one whose use still counts is not', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const parent = await newBranch(catalog, project)
    const child = await newBranch(catalog, project, parent)
    const other = await newBranch(catalog, project, parent)
    const recent = await newBranch(catalog, project)
    for (const { id } of [parent, child, other, recent]) await deleteBranchData(catalog, id)
    await catalog.rows(sql`update branch set deleted_at = clock_timestamp() - interval '14 months'`)
    await catalog.rows(sql`
      update branch set deleted_at = clock_timestamp() - interval '12 months' where id in (${other.id}, ${recent.id})`)
    const left = async () => {
      const rows = await catalog.rows<{ id: string }>(sql`select id from branch order by number`)
      return rows.map(({ id }) => id)
    }
    await cleanUntil(catalog, async () => !(await left()).includes(child.id))
    assert.deepEqual(await left(), [parent.id, other.id, recent.id])
    await catalog.rows(sql`
      update branch set deleted_at = clock_timestamp() - interval '14 months' where id = ${other.id}`)
    await cleanUntil(catalog, async () => !(await left()).includes(parent.id))
    assert.deepEqual(await left(), [recent.id])
  }))

test('a kind that fails holds up no other, and one with many old rows needs several batches', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    await catalog.rows(sql`
      insert into operation_event (project_id, operation_id, status, failures_count, updated_at)
      select ${project.id}, gen_random_uuid(), 'finished', 0, clock_timestamp() - interval '8 days'
        from generate_series(1, 4500)`)
    await catalog.rows(sql`alter table operation rename to operation_away`)
    await catalog.rows(sql`alter table audit rename to audit_away`)
    const isDone = async () => (await count(catalog, sql`select from operation_event`)) === 0
    const failed = await cleanUntil(catalog, isDone)
    // Each was tried once, and not again while others went on.
    assert.deepEqual(failed, ['operations', 'deleted projects', 'audit', 'pauses', 'history of branches'])
  }))
