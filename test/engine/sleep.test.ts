import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '../../src/catalog/sql.ts'
import { openCatalog } from '../../src/catalog/catalog.ts'
import { wait } from '../../src/engine/definition.ts'
import { createSleepWatch } from '../../src/machine_sleep.ts'
import { until } from '../processes.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { newProject, queue, read } from './operations.ts'
import { during, ended, run, toil } from './runners.ts'

/* Steps that work for long, and a machine that sleeps while operations run. */

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const HOUR_MS = 3_600_000

test('a step that works outside the catalog for longer than the session time-out keeps its session', () =>
  catalogs.with(async ({ catalog, url }) => {
    const own = openCatalog(url, 4, () => {}, 1)
    let attempts = 0
    const pid = async () => {
      const rows = await catalog.rows<{ silent: boolean }>(sql`
        select state_change - xact_start > interval '2 seconds' as silent from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction'`)
      return rows.some(({ silent }) => silent)
    }
    const definition = toil({
      begun: async () => {
        attempts++
        await until('its transaction is older than the time-out', pid)
      },
    })
    await during([run(own, definition, { keepAliveMs: 200 })], async () => {
      const [operation] = await ended(catalog, await queue(catalog, await newProject(catalog)))
      assert.deepEqual([operation?.status, operation?.failures_count, attempts], ['finished', 0, 1])
    })
    await own.close()
  }))

test('operations that were under way when the machine slept are not overdue', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    let slept = 0
    const sleptMs = () => {
      const ms = slept
      slept = 0
      return ms
    }
    const isOverdue = async (id: string) => Date.parse((await read(catalog, id)).deadline_at ?? '') < Date.now()
    const asleep = Promise.withResolvers<void>()
    let isAwake = false
    const definition = toil({
      begun: async ({ input }) => {
        if ((input as { readonly waits: boolean }).waits) return isAwake ? undefined : wait(3600, 'not yet')
        await asleep.promise
        return undefined
      },
      later: async () => {},
    })
    await during([run(catalog, definition, { sleptMs, sweepMs: 100 })], async () => {
      const [inStep, waiting] = await Promise.all(
        [false, true].map((waits) => queue(catalog, project, { deadline_seconds: 1, input: { waits } })),
      )
      assert.ok(inStep && waiting)
      for (const { id } of [inStep, waiting]) await until('its deadline passes', () => isOverdue(id))
      slept = HOUR_MS
      await until('the sleep is noticed', () => slept === 0)
      isAwake = true
      asleep.resolve()
      await catalog.rows(sql`update operation set run_at = clock_timestamp() where id = ${waiting.id}`)
      for (const { status, error } of await ended(catalog, inStep, waiting))
        assert.deepEqual([status, error], ['finished', null])
    })
  }))

test('a sleep is what the wall clock went further than the clock that stands still meanwhile', () => {
  let now = { wallMs: 1_000_000, awakeMs: 500 }
  const sleptMs = createSleepWatch(() => now)
  now = { wallMs: now.wallMs + 3_000, awakeMs: now.awakeMs + 3_000 }
  assert.equal(sleptMs(), 0)
  now = { wallMs: now.wallMs + HOUR_MS + 2_000, awakeMs: now.awakeMs + 2_000 }
  assert.equal(sleptMs(), HOUR_MS)
  assert.equal(sleptMs(), 0)
  now = { wallMs: now.wallMs - HOUR_MS, awakeMs: now.awakeMs + 1_000 }
  assert.equal(sleptMs(), 0)
})
