/**
 * Every action of the control plane, run by real workers on a real machine: through; each step twice; its worker killed
 * before, during and after each step; an error and a failure at each step. Whatever happens, the
 * operation ends, and catalog and machine agree afterwards.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { sql } from '../../src/catalog/sql.ts'
import { ACTIONS } from '../../src/operations/index.ts'
import { type Case, CASES } from './cases.ts'
import type { Fault } from './faults.ts'
import { openSite, type Site } from './site.ts'
import { createWorld, type World } from './world.ts'

let site: Site
let world: World

before(async () => {
  site = await openSite()
  world = await createWorld(site)
})

after(() => site.close())

type Planned = Omit<Fault, 'mark'>
type End = { readonly status: 'finished' | 'failed'; readonly deaths: number; readonly failures: number }

test('each action has its cases, and they go through all of its steps', () => {
  const covered = (action: string) =>
    new Set(CASES.filter((each) => each.action === action).flatMap(({ steps }) => steps))
  assert.deepEqual(
    Object.fromEntries(ACTIONS.map(({ action }) => [action, [...covered(action)].sort()])),
    Object.fromEntries(ACTIONS.map(({ action, steps }) => [action, Object.keys(steps).sort()])),
  )
})

for (const each of CASES) {
  const { about, steps } = each
  const last = steps.at(-1) ?? ''
  scenario(each, about, [], { status: 'finished', deaths: 0, failures: 0 })
  scenario(each, `${about}, each step twice`, [{ what: 'twice', step: '', moment: 'before' }], {
    status: 'finished',
    deaths: 0,
    failures: 0,
  })
  if (each.effectAt) {
    const faults: Planned[] = [{ what: 'die', step: each.effectAt, moment: 'during' }]
    scenario(each, `${about}, killed during ${each.effectAt}`, faults, { status: 'finished', deaths: 1, failures: 0 })
  }
  const faultsAt = each.faultsAt ?? steps
  for (const step of faultsAt) {
    for (const moment of ['before', 'after', 'moved'] as const) {
      const faults: Planned[] = [{ what: 'die', step, moment }]
      scenario(each, `${about}, killed ${moment} ${step}`, faults, { status: 'finished', deaths: 1, failures: 0 })
    }
    for (const moment of ['before', 'after'] as const) {
      const error: Planned[] = [{ what: 'throw', step, moment }]
      scenario(each, `${about}, an error ${moment} ${step}`, error, { status: 'finished', deaths: 0, failures: 1 })
      const failure: Planned[] = [{ what: 'fail', step, moment }]
      scenario(each, `${about}, a failure ${moment} ${step}`, failure, { status: 'failed', deaths: 0, failures: 1 })
    }
  }
  for (const moment of faultsAt.length > 0 ? (['before', 'after'] as const) : []) {
    const faults: Planned[] = [
      { what: 'fail', step: last, moment: 'after' },
      { what: 'die', step: 'failure', moment },
    ]
    scenario(each, `${about}, a failure and killed ${moment} onFailure`, faults, {
      status: 'failed',
      deaths: 1,
      failures: 1,
    })
  }
}

function scenario(its: Case, name: string, planned: readonly Planned[], expected: End): void {
  test(name, async () => {
    const run = await its.prepare(world)
    const faults = planned.map((fault) => ({ ...fault, mark: site.newMark() }))
    const killed = site.crew.deaths()
    const operation = await site.catalog.transaction(async (tx) => {
      const queued = await run.request(tx)
      await tx.rows(sql`update operation set input = input || ${JSON.stringify({ faults })} where id = ${queued.id}`)
      return queued
    })
    const end = await world.ended(operation)
    const log = () => site.crew.log()
    assert.equal(end.status, expected.status, `${end.error}\n${log()}`)
    await site.crew.awaitDeaths(killed + expected.deaths)
    assert.equal(site.crew.deaths() - killed, expected.deaths, 'workers killed')
    assert.equal(end.failures_count, expected.failures, `failures\n${log()}`)
    for (const { what, mark, step } of faults)
      if (what !== 'twice') assert.ok(existsSync(mark), `nothing struck at ${step}`)
    if (end.status === 'failed') assert.match(end.error ?? '', /^a failure (before|after) /)
    await site.agree()
    await (end.status === 'failed' ? run.failed() : run.finished())
    await site.agree()
  })
}

test('when every project is deleted nothing is left', async () => {
  await world.deleteEverything()
  await site.agree()
  assert.deepEqual(await site.backend.listBranches(), [])
})
