import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { setActive, setIdle } from '../../src/catalog/compute.ts'
import {
  addSamples,
  type ComputeSample,
  expireHistory,
  listPoints,
  listSampled,
  listWakes,
} from '../../src/catalog/compute_history.ts'
import type { Endpoint } from '../../src/catalog/endpoint.ts'
import { setClients } from '../../src/catalog/endpoint_clients.ts'
import { registerProxy } from '../../src/catalog/proxy.ts'
import { sql } from '../../src/catalog/sql.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { finish, HOST, newBranch, newEndpoint, newProject, queue } from './operations.ts'

/* The figures of computes: kept by the minute, read in steps, and expired. */

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

async function running(catalog: Catalog): Promise<Endpoint> {
  const branch = await newBranch(catalog, await newProject(catalog))
  const endpoint = await newEndpoint(catalog, branch)
  const compute = { id: endpoint.id, hostId: HOST, host: '/nowhere', port: 1, store: branch.id, startedAt: new Date() }
  await setActive(catalog, endpoint.id, branch.id, compute)
  return endpoint
}

const sampleOf = ({ id }: Endpoint, changed: Partial<ComputeSample> = {}): ComputeSample => ({
  endpoint_id: id,
  compute_id: id,
  cpu: 0.5,
  memory: 2 ** 20,
  cache: 2 ** 21,
  sessions: 3,
  hits: 90,
  reads: 10,
  ...changed,
})

/** A time around now, in steps of so many seconds. */
const around = (stepSeconds: number, days = 1) => ({
  from: new Date(Date.now() - days * 86_400_000).toISOString(),
  to: new Date(Date.now() + 60_000).toISOString(),
  stepSeconds,
})

/** Moves all that is kept of an endpoint so many minutes into the past, hour by hour. */
const age = (catalog: Catalog, { id }: Endpoint, hours: number) =>
  catalog.rows(sql`
    update compute_history set hour = hour - make_interval(hours => ${hours}) where endpoint_id = ${id}`)

test('a running compute has one sample a minute, a sleeping one costs none', () =>
  catalogs.with(async ({ catalog }) => {
    const [one, other] = [await running(catalog), await running(catalog)]
    await setIdle(catalog, other.id, 'idle')
    assert.deepEqual(
      (await listSampled(catalog, HOST)).map(({ endpoint_id }) => endpoint_id),
      [one.id],
    )
    await addSamples(catalog, [sampleOf(one), sampleOf(other)])
    await addSamples(catalog, [sampleOf(one, { cpu: 9 })])
    const [point, ...more] = await listPoints(catalog, one.id, around(86_400))
    // The two may lie on both sides of a minute's end.
    assert.deepEqual([point?.cu, point?.memory, point?.sessions, more.length], [0.25, 2 ** 20, 3, 0])
    const rows = await catalog.rows<{ once: boolean }>(sql`
      select cardinality(minutes) = (select count(distinct m) from unnest(minutes) m) as once
        from compute_history where endpoint_id = ${one.id}`)
    assert.ok(rows.every(({ once }) => once))
    assert.deepEqual(await listPoints(catalog, other.id, around(60)), [])
  }))

test('figures are averaged, or the highest taken, in steps; what is not known is absent', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog)
    await addSamples(catalog, [sampleOf(endpoint, { cpu: 1, hits: 10, reads: 0 })])
    await age(catalog, endpoint, 2)
    await addSamples(catalog, [sampleOf(endpoint, { cpu: 3, sessions: null, hits: 10, reads: 20 })])
    const each = await listPoints(catalog, endpoint.id, around(60))
    assert.deepEqual(
      each.map(({ cpu, sessions, hit_ratio }) => [cpu, sessions, hit_ratio]),
      [
        [1, 3, 1],
        [3, null, 1 / 3],
      ],
    )
    const together = await listPoints(catalog, endpoint.id, { ...around(60), stepSeconds: 10 * 365 * 86_400 })
    assert.deepEqual(
      together.map(({ cpu, cpu_max, sessions, hit_ratio }) => [cpu, cpu_max, sessions, hit_ratio]),
      [[2, 3, 3, 0.5]],
    )
  }))

test('clients at the proxies count, and leave with their proxy', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog)
    const session = await catalog.session()
    const number = await registerProxy(session)
    await setClients(catalog, number, new Map([[endpoint.id, 5]]))
    await setClients(
      catalog,
      number,
      new Map([
        [endpoint.id, 7],
        ['ep-other', 1],
      ]),
    )
    await setClients(catalog, number, new Map([['ep-other', 0]]))
    await addSamples(catalog, [sampleOf(endpoint)])
    assert.equal((await listPoints(catalog, endpoint.id, around(60)))[0]?.clients, 7)
    await catalog.rows(sql`delete from proxy`)
    assert.deepEqual(await catalog.rows(sql`select * from endpoint_clients`), [])
    await assert.rejects(setClients(catalog, number, new Map([[endpoint.id, 5]])))
    await session.end()
  }))

test('starts that clients waited for are read with their latency', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const endpoint = await newEndpoint(catalog, await newBranch(catalog, project))
    const of = { endpoint_id: endpoint.id, action: 'start_compute' }
    await finish(catalog, await queue(catalog, project, { ...of, input: { reason: 'connection' } }))
    await finish(catalog, await queue(catalog, project, { ...of, input: { reason: 'request' } }))
    await finish(catalog, await queue(catalog, project, { ...of, input: { reason: 'connection' } }), 'failed', 'broken')
    await queue(catalog, project, { ...of, input: { reason: 'connection' } })
    const [wake, ...more] = await listWakes(catalog, endpoint.id, around(86_400))
    assert.equal(wake?.count, 1)
    assert.ok(wake.mean_ms >= 0 && wake.max_ms >= wake.mean_ms)
    assert.deepEqual(more, [])
  }))

test('history expires in bounded batches', () =>
  catalogs.with(async ({ catalog }) => {
    const endpoint = await running(catalog)
    for (let hours = 0; hours < 5; hours++) {
      await addSamples(catalog, [sampleOf(endpoint)])
      await age(catalog, endpoint, 24)
    }
    assert.equal(await expireHistory(catalog, 3, 1), 1)
    assert.equal(await expireHistory(catalog, 3, 100), 2)
    assert.equal(await expireHistory(catalog, 3, 100), 0)
    assert.equal((await listPoints(catalog, endpoint.id, around(60, 10))).length, 2)
  }))
