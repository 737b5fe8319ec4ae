import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { connect, query } from '../clients.ts'
import { refused, send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { firstPlace, type Place, settled, suspend } from '../project.ts'

/* The figures of a compute over time, and the course of operations, as users see them. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
})
after(() => neap?.stop())

const path = () => `/projects/${place.project_id}/endpoints/${place.endpoint_id}/metrics`

async function metrics(time: { from?: string; to?: string } = {}) {
  const { project_id, endpoint_id } = place
  const params = { project_id, endpoint_id }
  const key = 'GET /projects/:project_id/endpoints/:endpoint_id/metrics'
  return (await neap.call(key, { params, query: time })).metrics
}

test('a running compute leaves its figures, which remain while it sleeps', async () => {
  const client = await connect(neap, place.uri)
  await client.query('select count(*) from generate_series(1, 200000)')
  // A worker that begins takes a sample at once.
  await kill(neap.part('worker'))
  await until('a sample', async () => (await metrics()).points.length > 0)
  const [point] = (await metrics()).points
  assert.deepEqual([point?.cu, point?.connections], [0.25, 1])
  assert.ok((point?.memory_bytes ?? 0) > 2 ** 20, JSON.stringify(point))
  await client.end()
  await suspend(neap, place)
  assert.ok((await metrics()).points.length > 0)
  const { code, stdout } = await neapRun(['endpoints', 'metrics'], envOf(neap.ready.data_dir))
  assert.equal(code, 0)
  assert.match(stdout, /AT +SIZE +.*SESSIONS/)
})

test('a start that a client waited for is a wake with its latency', async () => {
  await suspend(neap, place)
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  await until('a wake', async () => (await metrics()).wakes.length > 0)
  const wakes = (await metrics()).wakes
  assert.ok(wakes.every(({ count, mean_ms, max_ms }) => count > 0 && mean_ms > 0 && max_ms >= mean_ms))
  const { project_id } = place
  const { operations } = await neap.call('GET /projects/:project_id/operations', {
    params: { project_id },
    query: { limit: 100, action: 'start_compute' },
  })
  const woken = operations.find(({ reason }) => reason === 'connection')
  assert.ok(woken)
  const course = await neap.call('GET /projects/:project_id/operations/:operation_id/steps', {
    params: { project_id, operation_id: woken.id },
  })
  assert.deepEqual(
    course.steps.map(({ name, status }) => [name, status]),
    [['compute_answers', 'done']],
  )
  assert.deepEqual([course.cancellable, course.waits_behind], [false, []])
  assert.match(course.not_cancellable_because ?? '', /only one that has not begun can be cancelled/)
})

test('the step follows from the span, so that points are few', async () => {
  const to = new Date().toISOString()
  const stepOf = async (hours: number) => {
    const from = new Date(Date.parse(to) - hours * 3_600_000).toISOString()
    return (await metrics({ from, to })).step_seconds
  }
  assert.deepEqual(
    await Promise.all([1, 6, 12, 24, 7 * 24, 30 * 24, 90 * 24].map(stepOf)),
    [60, 60, 60, 120, 900, 3_600, 14_400],
  )
})

test('a time that makes no sense is refused', async () => {
  const ask = (time: Record<string, string>) => send(neap, 'GET', `${path()}?${new URLSearchParams(time).toString()}`)
  const [early, late] = ['2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']
  refused(await ask({ from: late, to: early }), 422, 'NOT_ALLOWED', /from is not before to/)
  refused(await ask({ from: '2020-01-01T00:00:00Z', to: late }), 422, 'NOT_ALLOWED', /more than 92 days/)
  refused(await ask({ from: 'yesterday' }), 400, 'INVALID_REQUEST', /from/)
  refused(await ask({ from: '9000-01-01T00:00:00Z', to: '9000-01-02T00:00:00Z' }), 422, 'NOT_ALLOWED', /of these years/)
  refused(
    await send(neap, 'GET', `/projects/${place.project_id}/endpoints/ep-nowhere-isle-0aaaaaaa/metrics`),
    404,
    'NOT_FOUND',
    /not found/,
  )
})

test('projects are listed with what they have, when that is asked for', async () => {
  const [plain] = (await neap.call('GET /projects', { query: { limit: 10 } })).projects
  assert.equal(plain?.summary, undefined)
  const [project] = (await neap.call('GET /projects', { query: { limit: 10, summary: true } })).projects
  assert.deepEqual(
    [project?.summary?.branches, project?.summary?.endpoints],
    [1, { active: 1, idle: 0, stopped: 0, changing: 0 }],
  )
})
