import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Endpoint, findEndpoint } from '../../src/catalog/endpoint.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { KEPT_SESSIONS } from '../../src/catalog/pool_growth.ts'
import { sql } from '../../src/catalog/sql.ts'
import { requestStart } from '../../src/operations/start_compute.ts'
import { until } from '../processes.ts'
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

test('the transaction of a request frees its locks before it is durable, and resolves once it is', () =>
  catalogs.with(async ({ catalog, open }) => {
    const { id } = await newEndpoint(catalog, await newBranch(catalog, await newProject(catalog)))
    const other = open()
    const resume = await durableNever(other)
    try {
      let isDurable = false
      const request = catalog
        .transaction((tx) => tx.rows(sql`update endpoint set current_state = 'active' where id = ${id}`), {
          requestId: 'a request',
        })
        .then(() => (isDurable = true))
      await until('it is committed', async () => (await findEndpoint(other, id))?.current_state === 'active')
      // A commit of this one would wait too.
      const locking = other.transaction(async (tx) => {
        await tx.rows(sql`select from endpoint where id = ${id} for update nowait`)
        throw new Error('it was locked')
      })
      await assert.rejects(locking, /it was locked/)
      assert.equal(isDurable, false)
      await resume()
      await request
    } finally {
      await resume()
    }
  }))

test('requests of one project wait for their turn without a session', () =>
  catalogs.with(async ({ catalog }) => {
    const { id } = await newProject(catalog)
    let [inside, most] = [0, 0]
    const change = async (number: number) =>
      catalog.transaction(
        async (tx) => {
          most = Math.max(most, ++inside)
          await tx.rows(sql`update project set name = name || '.' where id = ${id}`)
          await tx.rows(sql`select pg_sleep(0.05)`)
          inside--
          if (number % 5 === 0) throw new Error('refused')
        },
        { requestId: `request ${number}`, project: id },
      )
    const opened = catalog.connections().total
    const ended = await Promise.allSettled(Array.from({ length: 20 }, (_, number) => change(number)))
    assert.equal(ended.filter(({ status }) => status === 'fulfilled').length, 16)
    assert.equal(most, 1)
    assert.ok(catalog.connections().total <= opened + KEPT_SESSIONS, 'no session was opened for each')
    const row = await catalog.row<{ name: string }>(sql`select name from project where id = ${id}`)
    assert.equal(row?.name, id + '.'.repeat(16))
  }))

test('starts of one project that a lock holds up wait in one session', () =>
  catalogs.with(async ({ catalog, open }) => {
    const project = await newProject(catalog)
    const endpoints: Endpoint[] = []
    for (let count = 0; count < 10; count++)
      endpoints.push(await newEndpoint(catalog, await newBranch(catalog, project)))
    const waiting = sql`
      select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    let starts: Promise<(string | undefined)[]> | undefined
    const watcher = open()
    await open().transaction(async (tx) => {
      await tx.rows(sql`select from project where id = ${project.id} for update`)
      starts = Promise.all(endpoints.map((endpoint) => requestStart(catalog, endpoint, undefined)))
      await until('one waits', async () => (await watcher.rows(waiting)).length > 0)
      const { total, idle, waiting: callers } = catalog.connections()
      assert.equal(total - idle + callers, 1)
    })
    assert.equal(new Set(await starts).size, endpoints.length)
  }))

test('a statement of a transaction is planned once in a session', () =>
  catalogs.with(async ({ catalog }) => {
    const { id } = await newProject(catalog)
    const plans = await catalog.transaction(async (tx) => {
      for (let turn = 0; turn < 3; turn++) await tx.rows(sql`select name as planned_once from project where id = ${id}`)
      return tx.rows(sql`
        select generic_plans, custom_plans from pg_prepared_statements where statement like '%planned_once%project%'
           and statement not like '%pg_prepared%'`)
    })
    assert.deepEqual(plans, [{ generic_plans: 3, custom_plans: 0 }])
  }))

/** Lets commits wait for an absent standby until the returned function is called. */
async function durableNever(catalog: Catalog): Promise<() => Promise<void>> {
  await catalog.rows(sql`alter system set synchronous_standby_names = 'absent'`)
  await catalog.rows(sql`select pg_reload_conf()`)
  let probe: Promise<unknown> | undefined
  await until('commits wait', async () => {
    probe ??= catalog.rows(sql`select pg_logical_emit_message(true, 'probe', '')`).finally(() => (probe = undefined))
    return catalog.row(sql`select from pg_stat_activity where wait_event = 'SyncRep'`)
  })
  return async () => {
    await catalog.rows(sql`alter system reset synchronous_standby_names`)
    await catalog.rows(sql`select pg_reload_conf()`)
    await probe
  }
}
