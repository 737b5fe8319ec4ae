import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { query as run } from '../clients.ts'
import { send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, type Place, resize, suspend } from '../project.ts'

/* What projects and branches use, as their owner sees it. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
})

after(() => neap?.stop())

const range = () => ({
  from: new Date(Date.now() - 3_600_000).toISOString(),
  to: new Date().toISOString(),
  granularity: 'hourly' as const,
})

test('a compute counts by its size for as long as it runs', async () => {
  const { project_id, branch_id } = place
  await neap.ended(await resize(neap, place, { min: 2 }))
  await run(neap, place.uri, `select repeat('x', 100000), pg_sleep(1.2)`)
  await suspend(neap, place)
  const { project } = await neap.call('GET /projects/:project_id', { params: { project_id } })
  assert.ok(project.active_time_seconds >= 1, `${project.active_time_seconds}`)
  assert.ok(project.compute_time_seconds >= 2, `${project.compute_time_seconds}`)
  const { branch } = await neap.call('GET /projects/:project_id/branches/:branch_id', {
    params: { project_id, branch_id },
  })
  assert.deepEqual(
    [branch.active_time_seconds, branch.compute_time_seconds, branch.cpu_used_sec],
    [project.active_time_seconds, project.compute_time_seconds, project.cpu_used_sec],
  )
  const { projects } = await neap.call('GET /projects', { query: { limit: 100 } })
  assert.equal(projects.find(({ id }) => id === project_id)?.active_time, project.active_time_seconds)
})

test('the history has the same by hour, for projects and for branches, and wakes nothing', async () => {
  const { project_id, branch_id } = place
  const metrics = ['compute_unit_seconds', 'extra_branches_month']
  const { projects } = await neap.call('GET /consumption_history/v2/projects', {
    query: { ...range(), metrics, project_ids: [project_id], limit: 10 },
  })
  const [period] = projects[0]?.periods ?? []
  const values = projects[0]?.periods.flatMap(({ consumption }) => consumption.flatMap((each) => each.metrics)) ?? []
  const sum = values
    .filter(({ metric_name }) => metric_name === 'compute_unit_seconds')
    .reduce((all, { value }) => all + value, 0)
  assert.ok(sum >= 2, JSON.stringify(projects))
  assert.match(period?.period_start ?? '', /^\d{4}-\d\d-01T00:00:00.000Z$/)
  const { branches } = await neap.call('GET /consumption_history/v2/branches', {
    query: {
      ...range(),
      metrics: ['compute_unit_seconds', 'root_branch_bytes_month'],
      project_ids: [project_id],
      limit: 10,
    },
  })
  assert.deepEqual(
    branches.map((branch) => branch.branch_id),
    [branch_id],
  )
  assert.match(
    branches[0]?.periods[0]?.period_id ?? '',
    /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
  )
  const { endpoints } = await neap.call('GET /projects/:project_id/endpoints', { params: { project_id } })
  assert.equal(endpoints[0]?.current_state, 'idle')
})

test('the branches of the history come in pages, the deleted ones too', async () => {
  const other = await branchOff(neap, place)
  const { project_id } = place
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { project_id, branch_id: other.branch_id },
  })
  await neap.ended(operations)
  const page = (cursor?: string) =>
    neap.call('GET /consumption_history/v2/branches', {
      query: {
        ...range(),
        metrics: ['compute_unit_seconds'],
        project_ids: [project_id],
        limit: 1,
        ...(cursor !== undefined && { cursor }),
      },
    })
  const first = await page()
  const second = await page(first.pagination?.cursor)
  assert.deepEqual(
    [...first.branches, ...second.branches].map(({ branch_id }) => branch_id),
    [place.branch_id, other.branch_id].toSorted(),
  )
  assert.equal(second.pagination, undefined)
})

test('what a branch has written counts although it is deleted, or restored from another, at once', async () => {
  const { project_id, branch_id: source_branch_id } = place
  const written = async () =>
    (await neap.call('GET /projects/:project_id', { params: { project_id } })).project.written_data_bytes
  const write = async ({ uri }: Place) => {
    await run(neap, uri, `create table wide as select repeat(md5(n::text), 200) as t from generate_series(1, 1) n`)
    await run(neap, uri, 'alter table wide alter t set storage external')
    await run(neap, uri, 'insert into wide select repeat(md5(n::text), 200) from generate_series(1, 5000) n')
  }
  const other = await branchOff(neap, place)
  const params = { project_id, branch_id: other.branch_id }
  const earlier = await written()
  await write(other)
  const restored = await neap.call('POST /projects/:project_id/branches/:branch_id/restore', {
    params,
    body: { source_branch_id },
  })
  await neap.ended(restored.operations)
  await until('the old data has counted', async () => (await written()) > earlier + 30e6)
  const between = await written()
  await write(other)
  await neap.ended((await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params })).operations)
  assert.ok((await written()) > between + 30e6, `${await written()} after ${between}`)
})

test('a deleted project stays in the history', async () => {
  const made = await neap.call('POST /projects', { body: { project: { name: 'short-lived' } } })
  await neap.ended(made.operations)
  const { id } = made.project
  await neap.call('DELETE /projects/:project_id', { params: { project_id: id } })
  const asked = { ...range(), metrics: ['compute_unit_seconds'] }
  const all = await neap.call('GET /consumption_history/v2/projects', { query: { ...asked, limit: 100 } })
  assert.ok(all.projects.some(({ project_id }) => project_id === id))
  const one = await neap.call('GET /consumption_history/v2/projects', {
    query: { ...asked, project_ids: [id], limit: 10 },
  })
  assert.equal(one.projects[0]?.project_id, id)
})

test('a wrong question for the history is answered with what it takes', async () => {
  const { project_id } = place
  const ask = async (changed: object) => {
    const asked = { ...range(), metrics: 'compute_unit_seconds', project_ids: project_id, ...changed }
    const query = String(new URLSearchParams(asked))
    const { status, body } = await send(neap, 'GET', `/consumption_history/v2/branches?${query}`)
    return [status, (body as { message: string }).message]
  }
  const answers = [
    await ask({ metrics: 'compute_unit_seconds,energy' }),
    await ask({ metrics: 'extra_branches_month' }),
    await ask({ from: range().to, to: range().from }),
    await ask({ from: '2020-01-01T00:00:00Z' }),
    await ask({ cursor: 'none' }),
    await ask({ project_ids: 'no-such-project' }),
  ]
  assert.deepEqual(
    answers.map(([status]) => status),
    [422, 422, 422, 422, 422, 404],
  )
  assert.match(String(answers[0]?.[1]), /metrics has energy; it takes compute_unit_seconds, /)
  assert.match(String(answers[3]?.[1]), /with granularity hourly it reaches 7 days back/)
})

test('a project that has used up a quota starts no compute until it gets more', async () => {
  const { project_id, endpoint_id } = place
  const limit = (quota: object) =>
    neap.call('PATCH /projects/:project_id', { params: { project_id }, body: { project: { settings: { quota } } } })
  await limit({ active_time_seconds: 1, written_data_bytes: 2 ** 40 })
  const text = /^Your account or project has exceeded the compute time quota\. .*quota\.active_time_seconds/
  await assert.rejects(run(neap, place.uri, 'select 1'), { message: text, code: '53400' })
  const path = `/projects/${project_id}/endpoints/${endpoint_id}`
  for (const verb of ['start', 'restart']) {
    const { status, body } = await send(neap, 'POST', `${path}/${verb}`)
    assert.deepEqual([status, (body as { code: string }).code], [422, 'COMPUTE_TIME_EXCEEDED'])
  }
  await limit({ active_time_seconds: 1_000_000 })
  await run(neap, place.uri, 'select 1')
  await suspend(neap, place)
})
