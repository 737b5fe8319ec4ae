/**
 * Runs every action of the control plane with real workers on a real machine: without a fault; each step twice; its
 * worker killed before, during and after each step; the catalog killed meanwhile; an error and a failure at each step.
 * In each case the operation ends, and catalog and machine agree afterwards. `make test` runs a sample of the faults.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import type { Operation } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { ACTIONS } from '../../src/operations/index.ts'
import { isSampled } from '../sample.ts'
import { type Case, CASES, type Run } from './cases.ts'
import type { Fault } from './faults.ts'
import { openSite, type Site } from './site.ts'
import { changing, createWorld, type World } from './world.ts'

let site: Site
let world: World

before(async () => {
  site = await openSite()
  world = await createWorld(site)
})

after(() => site.close())

test('the cases cover every action and all of its steps', () => {
  const covered = (action: string) => CASES.filter((each) => each.action === action).flatMap(({ steps }) => steps)
  assert.deepEqual(
    Object.fromEntries(ACTIONS.map(({ action }) => [action, [...new Set(covered(action))].sort()])),
    Object.fromEntries(ACTIONS.map(({ action, steps }) => [action, Object.keys(steps).sort()])),
  )
})

for (const each of CASES) {
  const { steps, effectAt, faultsAt = steps } = each
  const last = steps.at(-1) ?? ''
  const done: End = { status: 'finished', failures: 0 }
  scenario(each, 'through', [], done)
  scenario(each, 'each step twice', [{ what: 'twice', step: '', moment: 'before' }], done)
  if (effectAt) {
    const during: Planned = { what: 'die', step: effectAt, moment: 'during' }
    scenario(each, `killed during ${effectAt}`, [during], { status: 'finished', deaths: 1 })
    for (const moment of ['after', 'moved'] as const) {
      const crash: Planned = { what: 'crash', step: effectAt, moment }
      scenario(each, `the catalog killed ${moment} ${effectAt}`, [crash], { status: 'finished' })
    }
  }
  for (const step of faultsAt) {
    for (const moment of ['before', 'after', 'moved'] as const) {
      const death: Planned = { what: 'die', step, moment }
      scenario(each, `killed ${moment} ${step}`, [death], { status: 'finished', deaths: 1 })
    }
    const error: Planned = { what: 'throw', step, moment: 'after' }
    scenario(each, `an error after ${step}`, [error], { status: 'finished', failures: 1 })
    for (const moment of ['before', 'after'] as const) {
      const failure: Planned = { what: 'fail', step, moment }
      scenario(each, `a failure ${moment} ${step}`, [failure], { status: 'failed', failures: 1 })
    }
  }
  if (faultsAt.length === 0) continue
  for (const moment of ['before', 'after'] as const) {
    const failure: Planned = { what: 'fail', step: last, moment: 'after' }
    const death: Planned = { what: 'die', step: 'failure', moment }
    const expected: End = { status: 'failed', deaths: 1, failures: 1 }
    scenario(each, `a failure and killed ${moment} onFailure`, [failure, death], expected)
  }
}

type Planned = Omit<Fault, 'mark' | 'catalogPid'>

interface End {
  readonly status: 'finished' | 'failed'
  /** The number of workers that it kills. */
  readonly deaths?: number
  /** Its number of failed attempts, where that is deterministic. */
  readonly failures?: number
}

/** Every case runs through without faults; of those with faults, a run tests a sample. */
function scenario(its: Case, name: string, planned: readonly Planned[], expected: End): void {
  const title = `${its.about}: ${name}`
  if (planned.some(({ what }) => what !== 'twice') && !isSampled(title)) return
  test(title, async () => {
    const run = await its.prepare(world)
    const faults = planned.map((fault) => ({ ...fault, mark: site.newMark() }))
    const killed = site.crew.deaths()
    const end = await world.ended(await ask(run, faults))

    const log = site.crew.log()
    assert.equal(end.status, expected.status, `${end.error}\n${log}`)
    if (end.status === 'failed') assert.match(end.error ?? '', /^a failure (before|after) /)
    if (expected.failures !== undefined) assert.equal(end.failures_count, expected.failures, log)
    await site.crew.awaitDeaths(killed + (expected.deaths ?? 0))
    assert.equal(site.crew.deaths() - killed, expected.deaths ?? 0, 'workers killed')
    for (const { what, mark, step } of faults)
      if (what !== 'twice') assert.ok(existsSync(mark), `nothing struck at ${step}`)

    await run.settled?.()
    await site.agree()
    await (end.status === 'failed' ? run.failed() : run.finished())
    await site.agree()
  })
}

/** Queues the operation with its faults; when one of them crashes the catalog, resolves after the crash. */
async function ask(run: Run, faults: readonly Fault[]): Promise<Operation> {
  if (!faults.some(({ what }) => what === 'crash')) return queue(run, faults)
  return site.throughCrash((catalogPid) =>
    queue(
      run,
      faults.map((fault) => ({ ...fault, catalogPid })),
    ),
  )
}

function queue(run: Run, faults: readonly Fault[]): Promise<Operation> {
  return changing(site.catalog, async (tx) => {
    const operation = await run.request(tx)
    await tx.rows(sql`update operation set input = input || ${JSON.stringify({ faults })} where id = ${operation.id}`)
    return operation
  })
}

test('deleting every project leaves no store', async () => {
  await world.deleteEverything()
  await site.agree()
  assert.deepEqual(await site.storage.list(), [])
})
