import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Branch, listResting, markBranchDeleted } from '../../src/catalog/branch.ts'
import { listLeftovers } from '../../src/catalog/branch_recovery.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { setActive } from '../../src/catalog/compute.ts'
import { nextIdleCheck, takeIdleChecks } from '../../src/catalog/endpoint.ts'
import { registerHost } from '../../src/catalog/host.ts'
import { moveToHost } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { claim } from '../../src/engine/claim.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { HOST, newBranch, newEndpoint, newProject, queue, vacancyFor } from './operations.ts'

const CAPACITY = { region: 'local', cpus: 2, memoryBytes: 4 * 2 ** 30, capacityCu: 16 }

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

async function hostsOf(catalog: Catalog): Promise<string[]> {
  return (await catalog.rows<{ id: string }>(sql`select id from host order by id`)).map(({ id }) => id)
}

async function storeHost(catalog: Catalog, { id }: Branch): Promise<string | undefined> {
  return (await catalog.row<{ id: string }>(sql`select host_id as id from store where branch_id = ${id}`))?.id
}

const claimed = async (catalog: Catalog, host: string) =>
  (await claim(catalog, vacancyFor('toil'), host)).due.map(({ id }) => id)

test('the first worker takes over the host that requests have used before it', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const branch = await newBranch(catalog, project)
    const operation = await queue(catalog, project, { branch_id: branch.id })
    assert.deepEqual([await hostsOf(catalog), await storeHost(catalog, branch)], [[HOST], HOST])
    await registerHost(catalog, 'host-a', CAPACITY)
    assert.deepEqual([await hostsOf(catalog), await storeHost(catalog, branch)], [['host-a'], 'host-a'])
    assert.deepEqual(await claimed(catalog, HOST), [])
    assert.deepEqual(await claimed(catalog, 'host-a'), [operation.id])
  }))

test('a second host is added beside the first, and each registers again as itself', () =>
  catalogs.with(async ({ catalog }) => {
    for (const id of ['host-a', 'host-b', 'host-a']) await registerHost(catalog, id, CAPACITY)
    assert.deepEqual(await hostsOf(catalog), ['host-a', 'host-b'])
  }))

test('of hosts that register at once one takes over the first', () =>
  catalogs.with(async ({ catalog, open }) => {
    const ids = ['host-a', 'host-b', 'host-c', 'host-d']
    await Promise.all(ids.map((id) => registerHost(open(), id, CAPACITY)))
    assert.deepEqual(await hostsOf(catalog), ids)
  }))

test('a worker claims the operations of its host and those of none', () =>
  catalogs.with(async ({ catalog }) => {
    await registerHost(catalog, 'host-a', CAPACITY)
    const here = await newProject(catalog)
    const branch = await newBranch(catalog, here)
    const elsewhere = await queue(catalog, here, { branch_id: branch.id })
    const anywhere = await queue(catalog, await newProject(catalog))
    await registerHost(catalog, 'host-b', CAPACITY)
    assert.deepEqual(await claimed(catalog, 'host-b'), [anywhere.id])
    await moveToHost(catalog, elsewhere.id, 'host-b')
    assert.deepEqual(await claimed(catalog, 'host-b'), [elsewhere.id])
  }))

test('the idle loop of a host looks at its own computes, and waits for no others', () =>
  catalogs.with(async ({ catalog }) => {
    for (const id of ['host-a', 'host-b']) await registerHost(catalog, id, CAPACITY)
    const endpoint = await newEndpoint(catalog, await newBranch(catalog, await newProject(catalog)))
    const compute = { id: 'one', hostId: 'host-a', host: '/nowhere', port: 1, store: 'br-a', startedAt: new Date() }
    await setActive(catalog, endpoint.id, endpoint.branch_id, compute)
    assert.deepEqual([await nextIdleCheck(catalog, 'host-b'), await takeIdleChecks(catalog, 'host-b')], [undefined, []])
    assert.equal(typeof (await nextIdleCheck(catalog, 'host-a')), 'number')
    assert.deepEqual(
      (await takeIdleChecks(catalog, 'host-a')).map(({ id, compute_address }) => [id, compute_address]),
      [[endpoint.id, '/nowhere']],
    )
  }))

test('a clone is placed on the host of its parent, wherever new projects go', () =>
  catalogs.with(async ({ catalog }) => {
    await registerHost(catalog, 'host-a', CAPACITY)
    const project = await newProject(catalog)
    const parent = await newBranch(catalog, project)
    await registerHost(catalog, 'host-b', CAPACITY)
    await catalog.rows(sql`update host set heartbeat_at = clock_timestamp() - interval '1 hour' where id = 'host-a'`)
    assert.equal(await storeHost(catalog, await newBranch(catalog, project, parent)), 'host-a')
    for (let round = 0; round < 5; round++)
      assert.equal(await storeHost(catalog, await newBranch(catalog, await newProject(catalog))), 'host-b')
  }))

test('a copy of a data directory cannot register while the worker of the first one lives', () =>
  catalogs.with(async ({ catalog }) => {
    await registerHost(catalog, 'host-a', { ...CAPACITY, place: 'one' })
    const copy = () => registerHost(catalog, 'host-a', { ...CAPACITY, place: 'two' })
    await assert.rejects(copy(), /Another worker lives as the host host-a/)
    await registerHost(catalog, 'host-a', { ...CAPACITY, place: 'one' })
    await catalog.rows(sql`update host set heartbeat_at = heartbeat_at - interval '1 minute'`)
    await copy()
  }))

test('a host stops computes and removes data only of its own stores', () =>
  catalogs.with(async ({ catalog }) => {
    const branch = await newBranch(catalog, await newProject(catalog))
    const ids = async (found: Promise<readonly Branch[]>) => (await found).map(({ id }) => id)
    const resting = (host: string) => ids(listResting(catalog, host, [branch.id]))
    assert.deepEqual([await resting(HOST), await resting('host-b')], [[branch.id], []])
    await markBranchDeleted(catalog, branch.id)
    const leftovers = (host: string) => ids(listLeftovers(catalog, host, { limit: 10, early: 0 }))
    assert.deepEqual([await leftovers(HOST), await leftovers('host-b')], [[branch.id], []])
  }))
