import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { deleteBranchData } from '../../src/catalog/branch.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { setActive, setIdle } from '../../src/catalog/compute.ts'
import {
  branchUses,
  countWal,
  expireConsumption,
  listBranchesOf,
  listUses,
  meterComputes,
  NO_USE,
  projectByteHours,
  projectUses,
} from '../../src/catalog/consumption.ts'
import type { Endpoint } from '../../src/catalog/endpoint.ts'
import { forgetHistory, insertBase } from '../../src/catalog/history.ts'
import { findExceededQuota, listOverQuota } from '../../src/catalog/quota.ts'
import { scale } from '../../src/catalog/scaling.ts'
import { sql } from '../../src/catalog/sql.ts'
import { setMeasured } from '../../src/catalog/store.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { HOST, newBranch, newEndpoint, newProject } from './operations.ts'

/* What branches use is counted exactly once, whatever ends when. */

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const computeOf = (id: string, store: string, startedMs = 0) => {
  const startedAt = new Date(Date.now() + startedMs)
  return { id, hostId: HOST, host: '/nowhere', port: 1, store, startedAt }
}

/** Makes an endpoint of 1 to 4 CU whose compute has run and was counted so many seconds ago. */
async function running(catalog: Catalog, secondsAgo: number): Promise<Endpoint> {
  const branch = await newBranch(catalog, await newProject(catalog))
  const endpoint = await newEndpoint(catalog, branch)
  await catalog.rows(sql`update endpoint set min_cu = 1, max_cu = 4, cu = 1 where id = ${endpoint.id}`)
  await setActive(catalog, endpoint.id, branch.id, computeOf(endpoint.id, branch.id))
  await setMeteredAgo(catalog, endpoint.id, secondsAgo)
  return endpoint
}

/** Sets the time of the last count, without a count. */
async function setMeteredAgo(catalog: Catalog, id: string, seconds: number): Promise<void> {
  await catalog.transaction(async (tx) => {
    await tx.rows(sql`select set_config('session_replication_role', 'replica', true)`)
    await tx.rows(
      sql`update endpoint set metered_at = clock_timestamp() - make_interval(secs => ${seconds}) where id = ${id}`,
    )
  })
}

/** Its CU-seconds and seconds, in whole ones: a test takes less than half a second. */
async function secondsOf(catalog: Catalog, { project_id, branch_id }: Endpoint): Promise<[number, number]> {
  const use = (await branchUses(catalog, project_id, branch_id)).get(branch_id) ?? NO_USE
  return [Math.floor(use.compute_seconds), Math.floor(use.active_seconds)]
}

const sized = (bytes: number) => ({ bytes, logicalBytes: bytes, isWhole: true })

test('a running compute counts up to each look, and once', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog, 50)
    await Promise.all([meterComputes(catalog, HOST, false), meterComputes(catalog, HOST, false)])
    assert.deepEqual(await secondsOf(catalog, endpoint), [50, 50])
    await setIdle(catalog, endpoint.id, 'idle')
    await meterComputes(catalog, HOST, false)
    assert.deepEqual(await secondsOf(catalog, endpoint), [50, 50])
  }))

test('a compute that starts in the second in which the last one ended counts from that end', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog, 0)
    for (const _ of [1, 2, 3]) {
      await setIdle(catalog, endpoint.id, 'request')
      await setActive(catalog, endpoint.id, endpoint.branch_id, computeOf(endpoint.id, endpoint.branch_id, -900))
    }
    await setIdle(catalog, endpoint.id, 'request')
    assert.deepEqual(await secondsOf(catalog, endpoint), [0, 0])
  }))

test('a compute counts by the size that it had', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog, 10)
    const wanted = { endpoint_id: endpoint.id, compute_id: endpoint.id, reason: 'cpu', figures: null } as const
    assert.equal(await scale(catalog, { ...wanted, from_cu: 1, wanted_cu: 4 }), 4)
    await setMeteredAgo(catalog, endpoint.id, 20)
    await setIdle(catalog, endpoint.id, 'request')
    assert.deepEqual(await secondsOf(catalog, endpoint), [10 + 4 * 20, 30])
  }))

test('of a compute whose end is noticed much later the time since its last count is left out', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog, 3600)
    await setIdle(catalog, endpoint.id, 'crash')
    assert.deepEqual(await secondsOf(catalog, endpoint), [0, 0])
  }))

test('a compute that outlived its worker counts whole; the sleep of a machine does not count', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog, 1800)
    await meterComputes(catalog, HOST, false)
    assert.deepEqual(await secondsOf(catalog, endpoint), [1800, 1800])
    await setMeteredAgo(catalog, endpoint.id, 1800)
    await meterComputes(catalog, HOST, true)
    await setIdle(catalog, endpoint.id, 'idle')
    assert.deepEqual(await secondsOf(catalog, endpoint), [1800, 1800])
  }))

test('a compute counts in each hour in which it ran; a deleted endpoint and its branch count on', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog, 3 * 3600)
    await meterComputes(catalog, HOST, false)
    const { project_id } = endpoint
    const range = {
      projectIds: [project_id],
      from: new Date(Date.now() - 4 * 3_600_000).toISOString(),
      to: new Date().toISOString(),
      byBranch: true,
      includedBranches: 10,
    }
    const hours = (await listUses(catalog, { ...range, granularity: 'hourly' })).map(({ compute_seconds }) =>
      Math.round(compute_seconds),
    )
    assert.ok(hours.filter((seconds) => seconds === 3600).length >= 2, JSON.stringify(hours))
    assert.equal(
      hours.reduce((sum, seconds) => sum + seconds, 0),
      3 * 3600,
    )
    await setMeteredAgo(catalog, endpoint.id, 30)
    await catalog.rows(sql`delete from endpoint where id = ${endpoint.id}`)
    const total = (await projectUses(catalog, [project_id])).get(project_id)
    // A run near the begin of a month has the hours before it in the month before.
    const months = await listUses(catalog, { ...range, granularity: 'monthly' })
    assert.equal(Math.floor(months.reduce((sum, { compute_seconds }) => sum + compute_seconds, 0)), 3 * 3600 + 30)
    assert.ok(total && total.active_seconds <= 3 * 3600 + 31)
  }))

test('WAL counts from where a store began, and each position once', () =>
  catalogs.with(async ({ catalog }) => {
    const { project_id, branch_id } = await running(catalog, 0)
    const store =
      (await catalog.row<{ id: string }>(sql`select id from store where branch_id = ${branch_id}`))?.id ?? ''
    for (const position of ['1/0', '1/10', '1/10', '0/FF', '2/0']) await countWal(catalog, new Map([[store, position]]))
    assert.equal((await projectUses(catalog, [project_id])).get(project_id)?.written_bytes, 2 ** 32)
  }))

test('sizes count for as long as a branch had them', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const branch = await newBranch(catalog, project)
    const store =
      (await catalog.row<{ id: string }>(sql`select id from store where branch_id = ${branch.id}`))?.id ?? ''
    await setMeasured(catalog, store, sized(1000))
    await catalog.rows(sql`update storage_size set since = clock_timestamp() - interval '2 hours'`)
    await setMeasured(catalog, store, sized(1000))
    await setMeasured(catalog, store, sized(5000))
    await catalog.rows(sql`update storage_size set since = clock_timestamp() - interval '1 hour' where bytes = 5000`)
    await deleteBranchData(catalog, branch.id)
    const uses = await listUses(catalog, {
      projectIds: [project.id],
      from: new Date(Date.now() - 3 * 3_600_000).toISOString(),
      to: new Date().toISOString(),
      granularity: 'hourly',
      byBranch: false,
      includedBranches: 0,
    })
    const sum = (value: (use: (typeof uses)[number]) => number) => uses.reduce((all, use) => all + value(use), 0)
    assert.equal(Math.round(sum(({ root_byte_hours }) => root_byte_hours) / 10), 600)
    assert.equal(
      sum(({ child_byte_hours }) => child_byte_hours),
      0,
    )
    assert.ok(sum(({ extra_branch_hours }) => extra_branch_hours) >= 0)
    assert.ok((await projectByteHours(catalog, project.id)) <= 6001)
    await expireConsumption(catalog, 100)
  }))

test('history and snapshots are counted apart from the data of branches', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const branch = await newBranch(catalog, project)
    const hidden = await newBranch(catalog, project)
    await catalog.rows(sql`update branch set is_snapshot = true where id = ${hidden.id}`)
    await catalog.rows(sql`update store set history_bytes = 300, is_chained = false where id = ${branch.id}`)
    const base = { number: 1, started_at: new Date().toISOString(), lsn: '0/1', segment: '000000010000000000000001' }
    await insertBase(catalog, branch.id, { ...base, bytes: 200 })
    await setMeasured(catalog, branch.id, sized(1000))
    await setMeasured(catalog, hidden.id, sized(7000))
    await catalog.rows(sql`update storage_size set since = clock_timestamp() - interval '2 hours'`)
    const part = { store_id: branch.id, base: 1, from_segment: base.segment, before_segment: base.segment }
    await forgetHistory(catalog, part, 100)
    await catalog.rows(
      sql`update storage_size set since = clock_timestamp() - interval '1 hour' where history_bytes = 200`,
    )
    const range = {
      projectIds: [project.id],
      from: new Date(Date.now() - 3 * 3_600_000).toISOString(),
      to: new Date().toISOString(),
      granularity: 'hourly',
      includedBranches: 9,
    } as const
    const sums = async (byBranch: boolean) => {
      const uses = await listUses(catalog, { ...range, byBranch })
      const sum = (value: (use: (typeof uses)[number]) => number) =>
        Math.round(uses.reduce((all, use) => all + value(use), 0) / 10)
      return {
        branches: [...new Set(uses.map(({ branch_id }) => branch_id))],
        root: sum(({ root_byte_hours }) => root_byte_hours),
        history: sum(({ history_byte_hours }) => history_byte_hours),
        snapshots: sum(({ snapshot_byte_hours }) => snapshot_byte_hours),
      }
    }
    // 500 bytes for the first hour, 200 for the second.
    assert.deepEqual(await sums(false), { branches: [null], root: 200, history: 70, snapshots: 1400 })
    assert.deepEqual(await sums(true), { branches: [branch.id], root: 200, history: 70, snapshots: 0 })
    const listed = await listBranchesOf(catalog, range, 10, undefined)
    assert.deepEqual(
      listed.map(({ branch_id }) => branch_id),
      [branch.id],
    )
  }))

test('the computes of a project that has used up a quota are found, and no others', () =>
  catalogs.with(async ({ catalog }) => {
    const [over, within, free] = [await running(catalog, 50), await running(catalog, 50), await running(catalog, 50)]
    const limit = (project: string, quota: object) =>
      catalog.rows(sql`update project set settings = ${JSON.stringify({ quota })}::jsonb where id = ${project}`)
    await limit(over.project_id, { compute_time_seconds: 50, data_transfer_bytes: 0 })
    await limit(within.project_id, { compute_time_seconds: 52 })
    await limit(free.project_id, { active_time_seconds: 0 })
    await meterComputes(catalog, HOST, false)
    assert.deepEqual(
      (await listOverQuota(catalog, HOST)).map(({ id }) => id),
      [over.id],
    )
    const exceeded = await findExceededQuota(catalog, over)
    assert.deepEqual({ ...exceeded }, { of: 'project', name: 'compute_time_seconds' })
    assert.equal(await findExceededQuota(catalog, within), undefined)
  }))
