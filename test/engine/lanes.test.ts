import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { after, before, test } from 'node:test'
import { ensureDefaultAccount, insertAccount } from '../../src/catalog/account.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { cancelUnbegun, type Operation } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { claim } from '../../src/engine/claim.ts'
import { type Definition, type LaneName, type Step, waitUntil } from '../../src/engine/definition.ts'
import { until } from '../processes.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { emitted, finish, HOST, newProject, queue, read, take, vacancyFor } from './operations.ts'
import { during, ended, nothing, run, toil } from './runners.ts'

// Operations that wait, or are many, and those of others beside them.
let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const MANY = 2_000

const inLane = (lane: LaneName, begun: Step<unknown, unknown>): Definition<unknown, unknown> => ({
  ...toil({ begun }),
  action: lane,
  lane,
})

const events = new EventEmitter().setMaxListeners(100)
const never = new Promise(() => undefined)

const waiting = (catalog: Catalog, action: string) =>
  catalog.rows<{ project_id: string }>(
    sql`select project_id from operation where action = ${action} and wait_reason is not null`,
  )

test('an operation that waits for a promise holds neither a place nor a transaction, and goes on when it settles', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    let settles = emitted(events, 'settled')
    let open = false
    const definition = toil({ begun: async () => (open ? undefined : waitUntil(settles, 'the test goes on')) })
    const stuck = await Promise.all(Array.from({ length: 20 }, () => queue(catalog, project)))
    await during([run(catalog, definition, { concurrency: 2 })], async () => {
      await until('all wait', async () => (await waiting(catalog, 'toil')).length === stuck.length)
      const open_transactions = await catalog.rows(sql`
        select from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction'`)
      assert.equal(open_transactions.length, 0)
      open = true
      const other = await queue(catalog, project)
      assert.equal((await ended(catalog, other))[0]?.status, 'finished')
      events.emit('settled')
      settles = never
      for (const operation of await ended(catalog, ...stuck)) {
        assert.equal(operation.status, 'finished')
        // It went on by itself: no other claim was needed.
        assert.equal(operation.generation, 1)
      }
    })
  }))

test('another worker takes over the waiting operations of one that stopped', () =>
  catalogs.with(async ({ catalog }) => {
    const operation = await queue(catalog, await newProject(catalog))
    await during([run(catalog, toil({ begun: async () => waitUntil(never, 'nothing ever comes') }))], () =>
      until('it waits', async () => (await waiting(catalog, 'toil')).length === 1).then(() => undefined),
    )
    await during([run(catalog, toil({ begun: nothing }))], async () => {
      assert.equal((await ended(catalog, operation))[0]?.status, 'finished')
    })
  }))

test('a lane whose places are all taken keeps no other lane waiting', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const released = emitted(events, 'released')
    const definitions = [
      inLane('work', async () => void (await released)),
      inLane('suspend', async () => void (await released)),
      inLane('start', nothing),
    ]
    const busy: Operation[] = []
    for (let each = 0; each < 6; each++)
      busy.push(await queue(catalog, project, { action: each % 2 ? 'work' : 'suspend' }))
    await during([run(catalog, toil({ begun: nothing }), { definitions, concurrency: 2 })], async () => {
      await until('both lanes are full', async () => {
        const running = await catalog.rows(sql`select from operation where status = 'running'`)
        return running.length === 4
      })
      const started = await queue(catalog, await newProject(catalog), { action: 'start' })
      assert.equal((await ended(catalog, started))[0]?.status, 'finished')
      events.emit('released')
      await ended(catalog, ...busy)
    })
  }))

test('copies that stand still keep their places, and no other project from its first', () =>
  catalogs.with(async ({ catalog }) => {
    const [one, other] = [await newProject(catalog), await newProject(catalog)]
    const definition = inLane('copy', async () => waitUntil(never, 'it is copied'))
    for (let each = 0; each < 10; each++) await queue(catalog, one, { action: 'copy' })
    await during([run(catalog, definition, { copies: 2 })], async () => {
      await until('one is copied', async () => (await waiting(catalog, 'copy')).length === 1)
      for (let each = 0; each < 10; each++) await queue(catalog, other, { action: 'copy' })
      const copied = await until('one of each is', async () => {
        const found = await waiting(catalog, 'copy')
        return found.length >= 2 && found
      })
      assert.deepEqual(copied.map(({ project_id }) => project_id).sort(), [one.id, other.id].sort())
      const third = await newProject(catalog)
      await queue(catalog, third, { action: 'copy' })
      await until('the third is copied', async () => (await waiting(catalog, 'copy')).length === 3)
    })
  }))

test('copies of one account that stand still, in many projects, keep no other account from its first', () =>
  catalogs.with(async ({ catalog }) => {
    const definition = inLane('copy', async () => waitUntil(never, 'it is copied'))
    for (let each = 0; each < 6; each++) await queue(catalog, await newProject(catalog), { action: 'copy' })
    await during([run(catalog, definition, { copies: 1 })], async () => {
      await until('three are copied', async () => (await waiting(catalog, 'copy')).length === 3)
      const { id: creatorId } = await ensureDefaultAccount(catalog, 'paid')
      const [id, organization_id] = [randomUUID(), 'org-other']
      const account = await insertAccount(catalog, {
        id,
        organization_id,
        name: 'other',
        email: 'other@localhost',
        plan: 'paid',
        creatorId,
      })
      const other = await newProject(catalog, account)
      await queue(catalog, other, { action: 'copy' })
      const copied = await until('a fourth is', async () => {
        const found = await waiting(catalog, 'copy')
        return found.length >= 4 && found
      })
      assert.equal(copied.length, 4)
      assert.ok(copied.some(({ project_id }) => project_id === other.id))
    })
  }))

test('projects take turns, however many operations one of them has queued', () =>
  catalogs.with(async ({ catalog }) => {
    const [one, other] = [await newProject(catalog), await newProject(catalog)]
    for (let each = 0; each < 12; each++) await queue(catalog, one)
    const late = [await queue(catalog, other), await queue(catalog, other)]
    const vacancy = { actions: ['toil'], most: 4, busy: [], share: 4 }
    const { due } = await claim(catalog, [vacancy], HOST)
    assert.deepEqual(
      due.map(({ project_id }) => project_id).sort(),
      [one.id, one.id, other.id, other.id].sort(),
      `of ${late.length} each`,
    )
    const busy = due.map(({ project_id }) => project_id)
    const driven = due.map(({ id }) => id)
    const more = await claim(catalog, [{ ...vacancy, busy, share: 3 }], HOST, driven)
    assert.equal(more.due.length, 1, 'a project gets no more than its share')
  }))

/** Fills a branch's queue in one statement, as `queue` does one by one. */
async function fillQueue(catalog: Catalog, operation: Operation): Promise<void> {
  await catalog.rows(sql`
    insert into operation (id, seq, account_id, project_id, action, status, input, step, excludes, shares,
                           passes_shared, depends_on, deadline_seconds, created_at)
    select gen_random_uuid(), seq + n, account_id, project_id, action, 'scheduling', input, step, excludes, shares,
           passes_shared, depends_on, deadline_seconds, created_at + n * interval '1 microsecond'
      from operation, generate_series(1, ${MANY}::int) n where id = ${operation.id}`)
  await catalog.rows(sql`
    update project set last_seq = last_seq + ${MANY}, last_operation_at = clock_timestamp() + interval '1 second'
     where id = ${operation.project_id}`)
  await catalog.rows(sql`vacuum analyze operation`)
}

/** The rows of `operation` that `work` reads by an index or by scans. */
async function rowsRead(catalog: Catalog, work: () => Promise<unknown>): Promise<number> {
  const reads = async () => {
    await catalog.rows(sql`select pg_stat_force_next_flush()`)
    const row = await catalog.row<{ count: number }>(sql`
      select seq_tup_read + idx_tup_fetch as count from pg_stat_user_tables where relname = 'operation'`)
    return Number(row?.count)
  }
  const earlier = await reads()
  await work()
  return (await reads()) - earlier
}

test('a look costs the same however many operations stand behind each other on one branch', () =>
  catalogs.with(async ({ open }) => {
    // One session, which flushes its statistics itself.
    const catalog = open()
    const project = await newProject(catalog)
    const first = await queue(catalog, project, { excludes: ['branch'] })
    assert.equal((await take(catalog))?.id, first.id)
    // Also with plans that were made while the table was small.
    const filled = await rowsRead(catalog, () => fillQueue(catalog, first))
    assert.ok(filled < 10 * MANY, `${MANY} operations were queued, and ${filled} were read`)
    const claimed = () => claim(catalog, vacancyFor('toil'), HOST, [first.id])
    // The first one too: what each stands behind was recorded as it was queued.
    for (const look of ['the first look', 'the second look']) {
      const alone = await rowsRead(catalog, async () => assert.deepEqual((await claimed()).due, []))
      assert.ok(alone < 20, `${look} read ${alone} operations`)
    }
    const other = await queue(catalog, await newProject(catalog))
    const beside = await rowsRead(catalog, async () => assert.equal((await claimed()).due[0]?.id, other.id))
    assert.ok(beside < 20, `a look read ${beside} operations`)
    await finish(catalog, other)
    // They still run one after the other.
    for (let seq = first.seq; seq < first.seq + 5; seq++) {
      const due = seq === first.seq ? await read(catalog, first.id) : await take(catalog)
      assert.equal(due?.seq, seq)
      const atEnd = await rowsRead(catalog, () => finish(catalog, due))
      assert.ok(atEnd < 20, `an end read ${atEnd} operations`)
    }
  }))

test('an operation follows when those before it are cancelled, also while a look records that it waits', () =>
  catalogs.with(async ({ catalog, open }) => {
    const others = open()
    for (let round = 0; round < 20; round++) {
      const project = await newProject(catalog)
      const first = await queue(catalog, project, { excludes: ['branch'] })
      assert.equal((await take(catalog))?.id, first.id)
      const middle = await queue(catalog, project, { excludes: ['branch'], branch_id: 'br-cancelled' })
      const last = await queue(catalog, project, { excludes: ['branch'] })
      await Promise.all([
        claim(others, vacancyFor('toil'), HOST, [first.id, middle.id]),
        catalog.transaction((tx) => cancelUnbegun(tx, project.id, { branchId: 'br-cancelled' }, 'it was deleted')),
        finish(catalog, first),
      ])
      assert.equal((await take(catalog))?.id, last.id)
      await finish(catalog, last)
    }
  }))

test('an operation follows when the one before it ends while it is queued', () =>
  catalogs.with(async ({ catalog, open }) => {
    const others = open()
    for (let round = 0; round < 40; round++) {
      const project = await newProject(catalog)
      const first = await queue(catalog, project, { excludes: ['branch'] })
      assert.equal((await take(catalog))?.id, first.id)
      const [last] = await Promise.all([
        catalog.transaction((tx) => queue(tx, project, { excludes: ['branch'] })),
        finish(others, first),
      ])
      assert.equal((await take(catalog))?.id, last.id)
      await finish(catalog, last)
    }
  }))
