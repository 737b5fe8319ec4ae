import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newBranch, newEndpoint, newProject } from '../../test/engine/operations.ts'
import { type Catalogs, startCatalogs } from '../../test/engine/catalogs.ts'
import { postponeChecks, setNextCheck, takeDueChecks } from '../catalog/availability.ts'
import type { Branch } from '../catalog/branch.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { sql } from '../catalog/sql.ts'
import { requestOperation } from '../operations/request.ts'
import { startCompute } from '../operations/start_compute.ts'
import { queueDueChecks } from './availability.ts'

const DAY = 86_400

let catalogs: Catalogs

before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

/** A branch with data and an idle endpoint. */
async function sleeping(catalog: Catalog, due: string): Promise<Branch & { endpoint_id: string }> {
  return catalog.transaction(async (tx) => {
    const branch = await newBranch(tx, await newProject(tx))
    const { id } = await newEndpoint(tx, branch)
    await tx.rows(sql`update branch set current_state = 'ready' where id = ${branch.id}`)
    await tx.rows(sql`update endpoint set check_at = clock_timestamp() + ${due}::interval where id = ${id}`)
    return { ...branch, endpoint_id: id }
  })
}

const checked = async (catalog: Catalog) =>
  (
    await catalog.rows<{ endpoint_id: string }>(
      sql`select endpoint_id from operation where action = 'check_availability'`,
    )
  )
    .map(({ endpoint_id }) => endpoint_id)
    .sort()

const hoursToCheck = async (catalog: Catalog) =>
  (
    await catalog.rows<{ hours: number }>(sql`
      select extract(epoch from check_at - clock_timestamp())::float8 / 3600 as hours from endpoint order by check_at`)
  ).map(({ hours }) => hours)

test('a look reads no endpoint whose check is due later', async () => {
  await catalogs.with(async ({ catalog }) => {
    await sleeping(catalog, '-1 second')
    await catalog.transaction(async (tx) => {
      await tx.rows(sql`set local session_replication_role = replica`)
      await tx.rows(sql`
        insert into endpoint (id, account_id, project_id, branch_id, min_cu, max_cu, check_at)
        select 'ep-later-' || n, account_id, project_id, 'br-later-' || n, min_cu, max_cu,
               clock_timestamp() + interval '1 hour'
          from endpoint, generate_series(1, 5000) n`)
    })
    await catalog.rows(sql`analyze endpoint`)
    const counted = await catalog.transaction(async (tx) => {
      assert.equal((await takeDueChecks(tx, 4)).length, 1)
      return tx.row<{ rows: number }>(sql`
        select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = 'endpoint'`)
    })
    assert.ok((counted?.rows ?? Infinity) < 10, `it read ${counted?.rows} rows`)
  })
})

test('several workers check each branch once per interval', async () => {
  await catalogs.with(async ({ catalog, open }) => {
    const branches = []
    for (let each = 0; each < 12; each++) branches.push(await sleeping(catalog, '-1 second'))
    const later = await sleeping(catalog, '1 hour')
    const workers = Array.from({ length: 6 }, open)
    const rounds = workers.flatMap((worker) => [queueDueChecks(worker, DAY), queueDueChecks(worker, DAY)])
    const queued = (await Promise.all(rounds)).reduce((sum, count) => sum + count, 0)
    assert.equal(queued, 12)
    assert.deepEqual(await checked(catalog), branches.map(({ endpoint_id }) => endpoint_id).sort())
    const [first = 0, ...rest] = await hoursToCheck(catalog)
    assert.ok(first > 0.9 && first <= 1, later.endpoint_id)
    for (const hours of rest) assert.ok(hours > 23.9 && hours <= 24, String(hours))
    const rows = sql`select pending_state from endpoint where check_at > clock_timestamp() + interval '2 hours'`
    for (const { pending_state } of await catalog.rows<{ pending_state: string }>(rows))
      assert.equal(pending_state, 'active')
  })
})

test('a branch is not checked while it is busy, without data, or its endpoint disabled', async () => {
  await catalogs.with(async ({ catalog }) => {
    const busy = await sleeping(catalog, '-1 second')
    const { account_id, project_id, id: branch_id, endpoint_id } = busy
    await catalog.transaction((tx) =>
      requestOperation(tx, startCompute, { account_id, project_id, branch_id, endpoint_id }, { reason: 'request' }),
    )
    const disabled = await sleeping(catalog, '-1 second')
    await catalog.rows(sql`update endpoint set disabled = true where id = ${disabled.endpoint_id}`)
    const empty = await sleeping(catalog, '-1 second')
    await catalog.rows(sql`update branch set current_state = 'init' where id = ${empty.id}`)
    assert.equal(await queueDueChecks(catalog, DAY), 0)
    assert.deepEqual(await checked(catalog), [])
    const [again = 0] = (await hoursToCheck(catalog)).filter((hours) => hours > 0)
    assert.ok(again <= 1 / 60, 'the busy one is looked at again in a minute')
  })
})

test('overdue checks and checks beyond the interval are spread over the interval', async () => {
  await catalogs.with(async ({ catalog }) => {
    for (let each = 0; each < 40; each++) await sleeping(catalog, each % 2 === 0 ? '-5 days' : '9 days')
    assert.equal(await queueDueChecks(catalog, DAY), 0)
    const hours = await hoursToCheck(catalog)
    assert.ok((hours[0] ?? 0) > 0 && (hours.at(-1) ?? 0) <= 24)
    const early = hours.filter((each) => each < 12).length
    assert.ok(early > 0 && early < 40, JSON.stringify(hours))
  })
})

test('a shutdown queues no more checks, including one already taken', async () => {
  await catalogs.with(async ({ catalog }) => {
    await sleeping(catalog, '-1 second')
    const [taken] = await takeDueChecks(catalog, 1)
    assert.ok(taken)
    await sleeping(catalog, '-1 second')
    await postponeChecks(catalog, 120)
    assert.equal(await queueDueChecks(catalog, DAY), 0)
    assert.equal(await setNextCheck(catalog, taken, DAY), false)
    assert.deepEqual(await checked(catalog), [])
  })
})
