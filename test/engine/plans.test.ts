import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Db } from '../../src/catalog/catalog.ts'
import { isLastAttempt } from '../../src/catalog/installation.ts'
import { unfinishedOperations, waitReasonOf } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { lockForStep, release } from '../../src/engine/claim.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { finish, newBranch, newEndpoint, newProject, queue, read, take } from './operations.ts'

// What the engine reads for one operation while another project has a long queue of which the planner does not know.
let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const QUEUED = 2_000
/** The rows of one's own project, and some that were read beside them. */
const MOST = 20

/** The rows of operations that this transaction has read. */
async function rowsRead(tx: Db): Promise<number> {
  const row = await tx.row<{ rows: number }>(sql`
    select (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as rows
      from pg_stat_xact_user_tables where relname = 'operation'`)
  return row?.rows ?? 0
}

test('work on one operation reads none of the queue of another project', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const branch = await newBranch(catalog, project)
    const endpoint = await newEndpoint(catalog, branch)
    const other = await newProject(catalog)
    const first = await queue(catalog, other)
    const copy = (from: number, status: string) =>
      catalog.rows(sql`
        insert into operation (id, seq, account_id, project_id, action, step, excludes, shares, deadline_seconds,
                               created_at, status, finished_at)
        select gen_random_uuid(), seq + n, account_id, project_id, action, step, excludes, shares, deadline_seconds,
               created_at + n * interval '1 ms', ${status}, case when ${status} = 'finished' then clock_timestamp() end
          from operation, generate_series(${from}::int, ${from + QUEUED - 1}::int) n where id = ${first.id}`)
    await copy(1, 'finished')
    await finish(catalog, first)
    await catalog.rows(sql`analyze`)
    const operation = await queue(catalog, project, { branch_id: branch.id, excludes: [branch.id] })
    const { generation } = (await take(catalog)) ?? assert.fail('nothing is due')
    await copy(QUEUED + 1, 'scheduling')
    const works: Record<string, (tx: Db) => Promise<unknown>> = {
      lockForStep: (tx) => lockForStep(tx, { id: operation.id, generation }),
      isLastAttempt: (tx) => isLastAttempt(tx, { id: operation.id, generation }),
      release: (tx) => release(tx, [operation.id]),
      unfinishedOperations: (tx) => unfinishedOperations(tx, branch.id, endpoint.id),
      waitReasonOf: (tx) => waitReasonOf(tx, endpoint.id),
      insertOperation: (tx) => queue(tx, project, { branch_id: branch.id, needed_branches: [branch.id] }),
      read: (tx) => read(tx, operation.id),
    }
    const counted: Record<string, number> = {}
    for (const [name, work] of Object.entries(works))
      await catalog.transaction(async (tx) => {
        const already = await rowsRead(tx)
        await work(tx)
        counted[name] = (await rowsRead(tx)) - already
      })
    assert.deepEqual(
      Object.entries(counted).filter(([, rows]) => rows > MOST),
      [],
    )
  }))
