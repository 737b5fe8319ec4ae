import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { recordHeartbeat } from '../../src/catalog/host.ts'
import { recordImage } from '../../src/catalog/image.ts'
import { keepDiskHistory, listNotices, type Notice, renewNotices } from '../../src/catalog/notice.ts'
import { sql } from '../../src/catalog/sql.ts'
import { decideOnWrites, listGrownOn, listWronglyRefusing } from '../../src/catalog/size_limit.ts'
import { setMeasured } from '../../src/catalog/store.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { HOST, newBranch, newEndpoint, newProject } from './operations.ts'

/* Limits: how far they are used, when they will be used up, and which endpoints refuse writes because of them. */

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const DAY_MS = 86_400_000

const setQuota = (catalog: Catalog, project: string, quota: object) =>
  catalog.rows(sql`update project set settings = ${JSON.stringify({ quota })}::jsonb where id = ${project}`)

const setDisk = (catalog: Catalog, free: number, lacksInodes = false) =>
  recordHeartbeat(catalog, HOST, { bytes: 1000, free, reserve: 100, lacksInodes }, undefined)

/** Measures the store of a branch. */
async function measure(catalog: Catalog, branchId: string, bytes: number): Promise<void> {
  const store = await catalog.row<{ id: string }>(sql`select id from store where branch_id = ${branchId}`)
  await setMeasured(catalog, store?.id ?? '', { bytes, logicalBytes: bytes, isWhole: true })
}

const levelsOf = (notices: readonly Notice[]) => notices.map(({ name, level }) => [name, level] as const)

/** Renews the notices and returns the levels that were raised. */
const raised = async (catalog: Catalog) => levelsOf(await renewNotices(catalog, HOST))

test('a disk has a notice at each level, once, and none below', () =>
  catalogs.with(async ({ catalog }) => {
    await newProject(catalog)
    const seen = []
    for (const free of [500, 390, 390, 250, 140, 90, 40, 0]) {
      await setDisk(catalog, free)
      seen.push(...(await raised(catalog)))
    }
    assert.deepEqual(
      seen.map(([, level]) => level),
      [60, 75, 85, 90, 95, 100],
    )
    // A little less use than the level keeps the notice; otherwise use at its edge would raise it again and again.
    await setDisk(catalog, 15)
    assert.deepEqual(await raised(catalog), [])
    await setDisk(catalog, 10)
    assert.deepEqual(await raised(catalog), [])
    await setDisk(catalog, 300)
    await raised(catalog)
    const all = { accountId: '00000000-0000-0000-0000-000000000000', projectId: null }
    assert.deepEqual(levelsOf(await listNotices(catalog, { ...all, withHosts: true })), [['host_disk', 60]])
    assert.deepEqual(await listNotices(catalog, { ...all, withHosts: false }), [])
    await setDisk(catalog, 900)
    await raised(catalog)
    assert.deepEqual(await listNotices(catalog, { ...all, withHosts: true }), [])
  }))

test('the room by which a disk can grow counts', () =>
  catalogs.with(async ({ catalog }) => {
    await newProject(catalog)
    const image = { bytes: 1000, trimmed_bytes: 0, problem: null }
    await setDisk(catalog, 100)
    await recordImage(catalog, HOST, image, 1000)
    assert.deepEqual(await raised(catalog), [])
    await recordImage(catalog, HOST, { ...image, problem: 'the disk below is full' }, 0)
    assert.deepEqual(await raised(catalog), [['host_disk', 90]])
  }))

test('the forecast of a disk goes on from its growth in the last day', () =>
  catalogs.with(async ({ catalog }) => {
    await newProject(catalog)
    await setDisk(catalog, 600)
    await keepDiskHistory(catalog, HOST)
    await keepDiskHistory(catalog, HOST)
    const { changed } = (await catalog.row<{ changed: number }>(sql`
      with moved as (update host_disk set at = at - interval '12 hours' returning 1)
      select count(*) as changed from moved`)) ?? { changed: 0 }
    assert.equal(changed, 1, 'one figure an hour')
    await setDisk(catalog, 300)
    const [notice] = await renewNotices(catalog, HOST)
    // It grew by 300 in half a day, and 300 are left.
    const inDays = (Date.parse(notice?.full_at ?? '') - Date.now()) / DAY_MS
    assert.ok(inDays > 0.45 && inDays < 0.55, `${inDays}`)
  }))

test('a branch and a quota of the month have notices for their account, with forecasts', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const branch = await newBranch(catalog, project)
    await setQuota(catalog, project.id, { logical_size_bytes: 1000, active_time_seconds: 100, compute_time_seconds: 0 })
    await measure(catalog, branch.id, 200)
    await catalog.rows(sql`update storage_size set since = clock_timestamp() - interval '12 hours'`)
    await measure(catalog, branch.id, 800)
    await catalog.rows(sql`
      insert into consumption (project_id, branch_id, period, since, active_seconds)
      select ${project.id}, ${branch.id}, period, since, 91 from periods_of(clock_timestamp())`)
    assert.deepEqual(Object.fromEntries(await raised(catalog)), { active_time_seconds: 90, logical_size_bytes: 75 })
    const own = { accountId: project.account_id, projectId: null, withHosts: false }
    const [quota, size] = await listNotices(catalog, own)
    assert.deepEqual([quota?.subject_id, size?.subject_id], [project.id, branch.id])
    const inDays = (Date.parse(size?.full_at ?? '') - Date.now()) / DAY_MS
    assert.ok(inDays > 0.15 && inDays < 0.19, `${inDays}`)
    assert.deepEqual(await listNotices(catalog, { ...own, projectId: 'another' }), [])
    await setQuota(catalog, project.id, {})
    await raised(catalog)
    assert.deepEqual(await listNotices(catalog, own), [])
  }))

test('a level that is reached is delivered to webhooks', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    await catalog.rows(sql`
      insert into webhook (id, account_id, project_id, url, events, enabled, secret)
      select gen_random_uuid(), id, null, 'https://example.com', '{notice.raised}', true, '' from account`)
    const branch = await newBranch(catalog, project)
    await setQuota(catalog, project.id, { logical_size_bytes: 1000 })
    await measure(catalog, branch.id, 950)
    await raised(catalog)
    await raised(catalog)
    const deliveries = await catalog.rows<{ event: string; level: number }>(sql`
      select event, (subject ->> 'level')::int as level from webhook_delivery`)
    assert.deepEqual(deliveries, [{ event: 'notice.raised', level: 95 }])
  }))

test('endpoints refuse writes by size and disk, and those that grow on are found', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const branch = await newBranch(catalog, project)
    const { id } = await newEndpoint(catalog, branch)
    const wrong = async () => (await listWronglyRefusing(catalog, { projectId: project.id })).map((each) => each.id)
    const decide = async () => (await decideOnWrites(catalog, id))?.writes_refused
    await setDisk(catalog, 900)
    await setQuota(catalog, project.id, { logical_size_bytes: 1000 })
    await measure(catalog, branch.id, 1001)
    assert.deepEqual(await wrong(), [], 'it has no compute')
    await catalog.rows(sql`
      insert into compute (id, endpoint_id, store_id, host_id, address, port, started_at)
      select 'run', ${id}, store_id, ${HOST}, '/nowhere', 1, clock_timestamp() from branch where id = ${branch.id}`)
    await catalog.rows(sql`update endpoint set compute_id = 'run' where id = ${id}`)
    assert.deepEqual(await wrong(), [id])
    assert.deepEqual(
      (await listWronglyRefusing(catalog, { hostId: HOST })).map((each) => each.id),
      [id],
    )
    assert.equal(await decide(), 'branch_size')
    assert.deepEqual([await wrong(), await decide()], [[], undefined])
    // VACUUM FULL needs twice the limit.
    await measure(catalog, branch.id, 64 * 2 ** 20 + 2000)
    assert.deepEqual(await listGrownOn(catalog, HOST), [])
    await measure(catalog, branch.id, 64 * 2 ** 20 + 2001)
    assert.deepEqual(
      (await listGrownOn(catalog, HOST)).map((each) => each.id),
      [id],
    )
    await setQuota(catalog, project.id, {})
    await setDisk(catalog, 99)
    assert.equal(await decide(), 'host_disk')
    assert.deepEqual(await listGrownOn(catalog, HOST), [])
    await measure(catalog, branch.id, 200 * 2 ** 20)
    assert.deepEqual(
      (await listGrownOn(catalog, HOST)).map((each) => each.id),
      [id],
    )
    await setDisk(catalog, 120)
    assert.deepEqual(await wrong(), [], 'a disk remains short until a quarter more than its reserve is free')
    await setDisk(catalog, 130)
    assert.deepEqual([await wrong(), await decide()], [[id], null])
  }))
