import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '../../src/errors.ts'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { ifAway, leaveNothing, newDataDir, startNeap } from '../neap.ts'
import { kill, postmastersOf, until } from '../processes.ts'
import { firstPlace } from '../project.ts'
import { randomOf } from '../random.ts'
import { sharedMemoryOfOthers } from '../shared_memory.ts'

/*
 * Projects and branches are created and deleted while the control plane is killed at random moments. NEAP_SEED repeats
 * a run's choices; the exact instruction at which a kill hits is not reproducible.
 */

const CYCLES = 50
const SPAN_MS = 1_200
/** The error of an operation that a deletion cancelled. */
const CANCELLED = /^(dependency failed: \w+ \S+: )?(cancelled: |the endpoint was deleted|branch \S+ is gone)/
const seed = Number(process.env['NEAP_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
// Separate sequences, so that the draws of one do not depend on the timing of the other.
const workDraws = randomOf(seed, 'work')
const killDraws = randomOf(seed, 'kills')

const dataDir = newDataDir()
let neap = await startNeap({ dataDir })
const first = await firstPlace(neap)

after(async () => {
  await neap.end()
  await leaveNothing(dataDir)
})

test(`${CYCLES} cycles of create, branch, suspend and delete under kill -9 (seed ${seed})`, async (t) => {
  await query(neap, first.uri, 'create table kept as select generate_series(1, 1000) as number')
  const watch = watchPostmasters()
  t.after(() => watch.stop())
  t.after(async () => {
    for (const row of await catalogQuery(neap, 'select * from operation where finished_at is null order by created_at'))
      t.diagnostic(`not ended: ${JSON.stringify(row)}`)
  })
  for (let cycle = 1; cycle <= CYCLES; cycle++) await Promise.all([work(), killAtRandom(cycle)])
  // Projects from requests whose answer was lost.
  for (const id of await unansweredProjects()) await deleteProject(id)
  await until('the end of every operation', async () => {
    const [row] = await catalogQuery<{ open: number }>(
      neap,
      'select count(*)::int as open from operation where finished_at is null',
    )
    return row?.open === 0
  })
  const { most, looks } = watch.stop()
  t.diagnostic(`looked ${looks} times at who serves which directory`)
  assert.equal(most, 1, 'there were two postmasters on one data directory')
  const failed = await catalogQuery<{ error: string }>(neap, `select error from operation where status = 'failed'`)
  t.diagnostic(`${failed.length} operations were cancelled`)
  assert.deepEqual(
    failed.filter(({ error }) => !CANCELLED.test(error)),
    [],
    'operations failed that should not have',
  )
  // Its compute may have been suspended meanwhile, and runs again then.
  assert.deepEqual(await query(neap, first.uri, 'select sum(number)::int from kept'), [{ sum: 500_500 }])
  await expectNoRemains()
})

/** One cycle. Each request follows immediately, or after the operations of the previous one have ended. */
async function work(): Promise<void> {
  const made = await untilAnswered(() => neap.call('POST /projects', { body: { project: {} } }))
  const params = { project_id: made.project.id }
  await maybeEnded(made.operations)
  const branch = await untilAnswered(() =>
    neap.call('POST /projects/:project_id/branches', { params, body: { endpoints: [{ type: 'read_write' }] } }),
  )
  await maybeEnded(branch.operations)
  const uri = branch.connection_uris?.[0]?.connection_uri as string
  if (workDraws.next() < 0.3)
    await until('an answer', () => query(neap, uri, 'create table if not exists seen ()').catch(() => undefined))
  const endpoint_id = branch.endpoints[0]?.id as string
  const suspended = await untilAnswered(() =>
    neap.call('POST /projects/:project_id/endpoints/:endpoint_id/suspend', { params: { ...params, endpoint_id } }),
  )
  await maybeEnded(suspended.operations)
  const branch_id = branch.branch.id
  const deleted = await untilAnswered(() =>
    neap
      .call('DELETE /projects/:project_id/branches/:branch_id', { params: { ...params, branch_id } })
      .catch(ifNotFound),
  )
  await maybeEnded(deleted === 'not_found' ? [] : deleted.operations)
  await deleteProject(made.project.id)
}

const deleteProject = (project_id: string) =>
  untilAnswered(() => neap.call('DELETE /projects/:project_id', { params: { project_id } }).catch(ifNotFound))

/** Sends a request until it is answered. */
const untilAnswered = <T>(request: () => Promise<T>): Promise<T> =>
  until('an answer of the API', () => request().catch(ifAway))

/** NOT_FOUND: an earlier deletion succeeded but its answer was lost. */
function ifNotFound(error: unknown): 'not_found' {
  if (error instanceof AppError && error.code === 'NOT_FOUND') return 'not_found'
  throw error
}

async function maybeEnded(operations: readonly { id: string; project_id: string }[]): Promise<void> {
  if (workDraws.next() < 0.5) return
  for (const { id, project_id } of operations)
    await until(`the end of operation ${id}`, async () => {
      const { operation } = await untilAnswered(() =>
        neap.call('GET /projects/:project_id/operations/:operation_id', { params: { project_id, operation_id: id } }),
      )
      return ['finished', 'failed'].includes(operation.status)
    })
}

/**
 * Kills parts, which are restarted, at a random moment. Every fifth cycle kills the whole control plane (every tenth
 * also the catalog) and starts Neap again.
 */
async function killAtRandom(cycle: number): Promise<void> {
  await sleep(killDraws.next() * SPAN_MS)
  if (cycle % 5 > 0) {
    // A part killed in the previous cycle may not be back yet.
    const parts = (['api', 'worker', 'proxy'] as const)
      .filter(() => killDraws.next() < 0.6)
      .flatMap((name) => neap.parts(name))
    return kill(...parts)
  }
  const catalog = postmastersOf(dataDir).find(({ directory }) => directory.endsWith('/catalog/pgdata'))
  if (cycle % 10 === 0 && catalog) process.kill(catalog.pid, 'SIGKILL')
  await neap.kill()
  neap = await startNeap({ dataDir })
}

/** Polls the number of postmasters that serve one data directory. */
function watchPostmasters() {
  let most = 0
  let looks = 0
  const timer = setInterval(() => {
    const counts = new Map<string, number>()
    for (const { directory } of postmastersOf(dataDir)) counts.set(directory, (counts.get(directory) ?? 0) + 1)
    most = Math.max(most, ...counts.values())
    looks += 1
  }, 20)
  return {
    stop() {
      clearInterval(timer)
      return { most, looks }
    },
  }
}

async function unansweredProjects(): Promise<string[]> {
  const { projects } = await untilAnswered(() => neap.call('GET /projects', { query: { limit: 400 } }))
  return projects.map(({ id }) => id).filter((id) => id !== first.project_id)
}

/** Asserts that the deleted resources have left no process, directory, shared memory or row. */
async function expectNoRemains(): Promise<void> {
  const kept = [{ id: first.branch_id }]
  assert.deepEqual(
    await catalogQuery(neap, 'select id from branch where store_id is not null or deleted_at is null'),
    kept,
  )
  assert.deepEqual(await catalogQuery(neap, 'select distinct branch_id as id from role'), kept)
  assert.deepEqual(await catalogQuery(neap, 'select distinct branch_id as id from database'), kept)
  assert.deepEqual(await catalogQuery(neap, 'select branch_id as id from endpoint'), kept)
  const proxies = neap.parts('proxy').length
  assert.deepEqual(await catalogQuery(neap, 'select count(*)::int from proxy'), [{ count: proxies }])
  const [{ number } = { number: 0 }] = await catalogQuery<{ number: string }>(neap, 'select number from store')

  const entries = (...path: string[]) => readdirSync(join(dataDir, ...path)).sort()
  assert.deepEqual(entries('branches'), [first.branch_id])
  assert.deepEqual(entries('trash'), [])
  assert.deepEqual(entries('run'), [`b${Number(number).toString(36)}`, 'catalog'])
  assert.deepEqual(
    entries('logs').filter((name) => name.startsWith('br-')),
    [first.branch_id],
  )
  assert.deepEqual(
    postmastersOf(dataDir).filter(
      ({ directory }) => !['catalog', first.branch_id].includes(directory.split('/').at(-2) as string),
    ),
    [],
  )
  assert.deepEqual(sharedMemoryOfOthers(dataDir, Number(number)), [])
}
