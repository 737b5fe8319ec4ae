import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { type Branch, markBranchDeleted } from '../../src/catalog/branch.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { sql } from '../../src/catalog/sql.ts'
import { loadConfig } from '../../src/config.ts'
import type { WorkerContext } from '../../src/context.ts'
import { layoutOf } from '../../src/host/layout.ts'
import { removeLeftovers } from '../../src/loops/adoption.ts'
import { startExpiryLoop } from '../../src/loops/expiry.ts'
import { deleteTenant } from '../../src/operations/delete_tenant.ts'
import { requestOperation } from '../../src/operations/request.ts'
import { freshHost } from '../local_host.ts'
import { until } from '../processes.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { HOST, newBranch, newProject, take } from './operations.ts'

/* A branch whose removal fails holds up no other. */

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const log = pino({ level: 'silent' })

/** Makes each insertion of an operation of this branch fail. */
const refuseOperations = async (catalog: Catalog, { id }: Branch): Promise<void> => {
  await catalog.rows(sql`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`)
  await catalog.rows(sql`create table refused as select ${id}::text as branch_id`)
  await catalog.rows(sql`
    create function is_refused(text) returns bool return $1 in (select branch_id from refused)`)
  await catalog.rows(sql`
    create trigger refuse before insert on operation for each row when (is_refused(new.branch_id))
      execute function refuse()`)
}

const operationsOf = (catalog: Catalog, { id }: Branch): Promise<{ action: string }[]> =>
  catalog.rows(sql`select action from operation where branch_id = ${id}`)

test('an expired branch that cannot be deleted holds up no other', () =>
  catalogs.with(async ({ catalog }) => {
    const [first, other] = [
      await newBranch(catalog, await newProject(catalog)),
      await newBranch(catalog, await newProject(catalog)),
    ]
    for (const [branch, hours] of [
      [first, 2],
      [other, 1],
    ] as const)
      await catalog.rows(sql`
        update branch set expires_at = clock_timestamp() - make_interval(hours => ${hours}) where id = ${branch.id}`)
    await refuseOperations(catalog, first)
    const loop = startExpiryLoop({ catalog, config: loadConfig(), log })
    try {
      await until('the other one is deleted', async () => (await operationsOf(catalog, other)).length === 1)
    } finally {
      await loop.stop()
    }
    assert.deepEqual(await operationsOf(catalog, first), [])
  }))

test('a store of a deleted branch whose removal cannot be queued holds up no other', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const [first, other] = [await newBranch(catalog, project), await newBranch(catalog, project)]
    for (const branch of [first, other]) await markBranchDeleted(catalog, branch.id)
    await refuseOperations(catalog, first)
    await removeLeftovers({ catalog, hostId: HOST, log })
    assert.deepEqual(await operationsOf(catalog, other), [{ action: 'delete_timeline' }])
  }))

test('a deletion of a project removes all stores but those that cannot be removed', () =>
  catalogs.with(async ({ catalog }) => {
    const local = freshHost()
    const { branches: directory, removed: notes, runtimeDir } = layoutOf(local.options)
    for (const each of [directory, notes, runtimeDir]) mkdirSync(each, { recursive: true })
    const project = await newProject(catalog)
    const branches: Branch[] = []
    for (let count = 0; count < 40; count++) branches.push(await newBranch(catalog, project))
    const removable = branches[branches.length / 2]?.id
    const stuck = branches.map(({ id }) => id).filter((id) => id !== removable)
    // A file in the place of a store's directory.
    for (const id of stuck) writeFileSync(join(directory, id), '')
    const { account_id, id: project_id } = project
    await catalog.transaction((tx) => requestOperation(tx, deleteTenant, { account_id, project_id }, {}))
    const operation = await take(catalog)
    assert.ok(operation)
    const context = { catalog, hostId: HOST, storage: local.storage } as unknown as WorkerContext
    const removed = () => catalog.rows<{ id: string }>(sql`select id from branch where store_id is null`)
    await assert.rejects(
      catalog.transaction(async (tx) => deleteTenant.steps['stores_removed']?.(operation as never, context, tx)),
      /File exists/,
    )
    assert.deepEqual(await removed(), [{ id: removable }])
    for (const id of stuck) rmSync(join(directory, id))
    await local.dispose()
  }))
