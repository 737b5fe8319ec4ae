import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { after, before, test } from 'node:test'
import type { Catalog } from '../../src/catalog/catalog.ts'
import type { Operation } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { done, goto, type Step, wait } from '../../src/engine/definition.ts'
import type { RunnerOptions } from '../../src/engine/runner.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { newProject, queue, read, emitted } from './operations.ts'
import { during, ended, nothing, run, toil } from './runners.ts'

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

test('an inserted operation runs its steps in order, with waits, jumps and an end', () =>
  catalogs.with(async ({ catalog }) => {
    const calls: string[] = []
    let waited = 0
    const definition = toil({
      begun: async ({ step }) => void calls.push(step),
      waited: async ({ step }) => {
        calls.push(step)
        return waited++ < 2 ? wait(waited === 1 ? 0 : 0.01, 'not yet') : undefined
      },
      jumped: async ({ step }) => {
        calls.push(step)
        return goto('ended')
      },
      skipped: async ({ step }) => void calls.push(step),
      ended: async ({ step }) => {
        calls.push(step)
        return done
      },
      never: async ({ step }) => void calls.push(step),
    })
    const moments: string[] = []
    const onStep: RunnerOptions<unknown>['onStep'] = ({ step }, moment) => void moments.push(`${step} ${moment}`)
    await during([run(catalog, definition, { onStep })], async () => {
      const [operation] = await ended(catalog, await queue(catalog, await newProject(catalog)))
      assert.deepEqual(calls, ['begun', 'waited', 'waited', 'waited', 'jumped', 'ended'])
      assert.equal(operation?.status, 'finished')
      assert.equal(operation.failures_count, 0)
      assert.ok(operation.started_at && operation.finished_at)
    })
    // The last `moved` is reported after the end, which other sessions see earlier.
    assert.deepEqual(
      moments,
      calls.flatMap((step) => [`${step} before`, `${step} after`, `${step} moved`]),
    )
  }))

test('an operation begins as soon as the one that blocks it ends', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const order: number[] = []
    const definition = toil({ begun: async ({ seq }) => void order.push(seq) })
    const queued: Operation[] = []
    for (let number = 1; number <= 5; number++) queued.push(await queue(catalog, project, { excludes: ['one'] }))
    await during([run(catalog, definition), run(catalog, definition)], async () => {
      await ended(catalog, ...queued)
      assert.deepEqual(order, [1, 2, 3, 4, 5])
    })
  }))

test('a notification that arrives during a poll is not lost', () =>
  catalogs.with(async ({ catalog, open }) => {
    const project = await newProject(catalog)
    const watched = open()
    const events = new EventEmitter()
    const inserted = emitted<Operation>(events, 'inserted')
    let looks = 0
    // The last query of a poll: the time of the next due operation. The insert and its notification arrive just before
    // the answer.
    const late: Catalog = {
      ...watched,
      async row<R>(statement: Parameters<Catalog['row']>[0]) {
        const answer = await watched.row<R>(statement)
        if (statement.text.includes('min(run_at)') && looks++ === 0) {
          const toldOf = new Promise((resolve) => void watched.listen('operation_due', resolve))
          await watched.rows(sql`select 1`)
          events.emit('inserted', await queue(catalog, project))
          await toldOf
        }
        return answer
      },
    }
    await during([run(late, toil({ begun: nothing }))], async () => {
      const [operation] = await ended(catalog, await inserted)
      assert.equal(operation?.status, 'finished')
    })
  }))

test('an operation that becomes due during a poll does not wait for the sweep', () =>
  catalogs.with(async ({ catalog, open }) => {
    const operation = await queue(catalog, await newProject(catalog))
    await catalog.rows(sql`update operation set run_at = 'infinity' where id = ${operation.id}`)
    const its = open()
    // It becomes due a moment before the runner queries the next due time, without a notification.
    const late: Catalog = {
      ...its,
      async row<R>(statement: Parameters<Catalog['row']>[0]) {
        if (statement.text.includes('min(run_at)'))
          await catalog.rows(
            sql`update operation set run_at = clock_timestamp(), updated_at = clock_timestamp()
                 where run_at = 'infinity'`,
          )
        return its.row<R>(statement)
      },
    }
    await during([run(late, toil({ begun: nothing }))], async () => {
      assert.equal((await ended(catalog, operation))[0]?.status, 'finished')
    })
  }))

test('a failed poll is repeated', () =>
  catalogs.with(async ({ catalog, open }) => {
    const operation = await queue(catalog, await newProject(catalog))
    const good = open()
    const errors: unknown[] = []
    const bad: Catalog = {
      ...good,
      transaction: (work) =>
        errors.length === 0 ? Promise.reject(new Error('the catalog is away')) : good.transaction(work),
    }
    const onError = (error: unknown) => void errors.push(error)
    await during([run(bad, toil({ begun: nothing }), { sweepMs: 10, onError })], async () => {
      assert.equal((await ended(catalog, operation))[0]?.status, 'finished')
      assert.equal(errors.length, 1)
    })
  }))

test('the runner listens again after its listening session was lost', () =>
  catalogs.with(async ({ catalog, open }) => {
    const project = await newProject(catalog)
    const its = open()
    await during([run(its, toil({ begun: nothing }))], async () => {
      const lost = await catalog.rows<{ ended: boolean }>(sql`
        select pg_terminate_backend(pid, 10000) as ended from pg_stat_activity
         where datname = current_database() and query like 'listen %'`)
      assert.deepEqual(lost, [{ ended: true }])
      const [operation] = await ended(catalog, await queue(catalog, project))
      assert.equal(operation?.status, 'finished')
    })
  }))

test('concurrency limits the running operations; the rest follow', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const queued: Operation[] = []
    for (let number = 1; number <= 6; number++) queued.push(await queue(catalog, project))
    let now = 0
    let most = 0
    const both = new EventEmitter()
    const twoAtOnce = emitted(both, 'two')
    const definition = toil({
      async begun() {
        most = Math.max(most, ++now)
        if (now === 2) both.emit('two')
        await twoAtOnce
        now--
      },
    })
    await during([run(catalog, definition, { concurrency: 2 })], async () => {
      await ended(catalog, ...queued)
      assert.equal(most, 2)
    })
  }))

test('two runners never run a step at the same time, and each step takes effect once', () =>
  catalogs.with(async ({ catalog, open }) => {
    const project = await newProject(catalog)
    await catalog.rows(
      sql`create table effect (operation_id uuid, step text, runner int, primary key (operation_id, step))`,
    )
    const inside = new Set<string>()
    const alone =
      (runner: number): Step<unknown, unknown> =>
      async ({ id, step }, _context, tx) => {
        assert.ok(!inside.has(id), `two are at ${step} of ${id}`)
        inside.add(id)
        await tx.rows(sql`insert into effect values (${id}, ${step}, ${runner})`)
        inside.delete(id)
      }
    const errors: unknown[] = []
    const runners = [1, 2, 3].map((runner) => {
      const step = alone(runner)
      const onError = (error: unknown) => void errors.push(error)
      return run(open(), toil({ begun: step, second: step, third: step }), { onError, sweepMs: 1 })
    })
    await during(runners, async () => {
      const queued: Operation[] = []
      for (let number = 0; number < 40; number++) {
        queued.push(await queue(catalog, project, { excludes: [`branch ${number % 10}`] }))
      }
      const operations = await ended(catalog, ...queued)
      assert.ok(operations.every(({ status }) => status === 'finished'))
      assert.deepEqual(errors, [])
      const effects = await catalog.rows<{ runner: number }>(sql`select runner from effect`)
      assert.equal(effects.length, 120)
      assert.equal(new Set(effects.map(({ runner }) => runner)).size, 3)
    })
  }))

test('a runner that was frozen between steps does not continue an operation taken over meanwhile', () =>
  catalogs.with(async ({ catalog, open }) => {
    const operation = await queue(catalog, await newProject(catalog))
    const events = new EventEmitter()
    const [stuck, thawed] = [emitted(events, 'stuck'), emitted(events, 'thawed')]
    const calls: string[] = []
    const stepsOf = (name: string) =>
      toil({
        begun: async ({ step }) => void calls.push(`${name} ${step}`),
        second: async ({ step }) => void calls.push(`${name} ${step}`),
      })
    const onStep: RunnerOptions<unknown>['onStep'] = async (_operation, moment) => {
      if (moment !== 'moved') return
      events.emit('stuck')
      await thawed
    }
    const slow = await run(open(), stepsOf('slow'), { onStep })
    await stuck
    await during([run(catalog, stepsOf('other'))], async () => {
      const [finished] = await ended(catalog, operation)
      events.emit('thawed')
      await slow.stop()
      assert.deepEqual(calls, ['slow begun', 'other second'])
      assert.deepEqual(await read(catalog, operation.id), finished)
    })
  }))

test('a session lost during a step fails that attempt, and the operation is retried', () =>
  catalogs.with(async ({ catalog, open }) => {
    let tries = 0
    const definition = toil({
      async begun(_operation, _context, tx) {
        if (++tries > 1) return
        const own = await tx.row<{ pid: number }>(sql`select pg_backend_pid() as pid`)
        await catalog.rows(sql`select pg_terminate_backend(${own?.pid}, 10000)`)
      },
    })
    await during([run(open(), definition)], async () => {
      const [operation] = await ended(catalog, await queue(catalog, await newProject(catalog)))
      assert.deepEqual([operation?.status, tries], ['finished', 2])
    })
  }))

test('a stop waits for the running step and begins no other; the next runner continues from there', () =>
  catalogs.with(async ({ catalog, open }) => {
    const events = new EventEmitter()
    const [begun, released] = [emitted(events, 'begun'), emitted(events, 'released')]
    const calls: string[] = []
    const definition = toil({
      async begun() {
        events.emit('begun')
        await released
        calls.push('begun')
      },
      second: async () => void calls.push('second'),
    })
    const first = await run(open(), definition)
    const operation = await queue(catalog, await newProject(catalog))
    await begun
    const stopped = first.stop()
    events.emit('released')
    await stopped
    assert.deepEqual(calls, ['begun'])
    assert.equal((await read(catalog, operation.id)).step, 'second')
    await during([run(catalog, definition)], async () => {
      await ended(catalog, operation)
      assert.deepEqual(calls, ['begun', 'second'])
    })
  }))
