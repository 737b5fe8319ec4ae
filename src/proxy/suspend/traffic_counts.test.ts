import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { connect, type Fixture, makeFixture, until } from '../../../test/proxy/fixture.ts'
import { type Catalog, openCatalog } from '../../catalog/catalog.ts'
import { sql } from '../../catalog/sql.ts'
import { branchUses, projectUses } from '../../catalog/consumption.ts'
import { endpointTraffic, expireTraffic } from '../../catalog/traffic.ts'
import { createCountWriter } from './traffic_counts.ts'

/* Traffic is counted per endpoint, completely and once. */

let fixture: Fixture
let pid: number

before(async () => {
  fixture = await makeFixture()
  pid = await fixture.compute.start()
})
after(() => fixture.close())

/** In the fixture a project has the same id as its only endpoint. */
async function trafficOf(endpoint: string): Promise<[toClients: number, fromClients: number, connections: number]> {
  const found = await endpointTraffic(fixture.catalog, endpoint, endpoint)
  return [found.bytes_to_clients, found.bytes_from_clients, found.connections]
}

const counts = (toClients: number, fromClients: number, connections: number) => ({
  toClients,
  fromClients,
  connections,
})

test('what passes through several proxies, pooled or not, adds up in the catalog', async () => {
  const endpoint = await fixture.endpoint(pid)
  const [one, two] = await Promise.all([fixture.proxy(), fixture.proxy()])
  const clients = await Promise.all([
    connect(one.port, endpoint),
    connect(two.port, endpoint),
    connect(two.port, `${endpoint}-pooler`),
  ])
  for (const client of clients) await client.query(`select repeat('x', 1000000), length($1)`, ['y'.repeat(100_000)])
  const [toClients, fromClients] = await until(async () => {
    const found = await trafficOf(endpoint)
    return found[0] > 3_000_000 && found[1] > 300_000 && found[2] === 3 && found
  })
  assert.ok(toClients < 3_010_000 && fromClients < 310_000, `${toClients} and ${fromClients} bytes`)
  // A proxy that stops adds all its counts first.
  await Promise.all(clients.map((client) => client.end()))
  await Promise.all([one.stop(), two.stop()])
  const [last] = await trafficOf(endpoint)
  assert.equal((await projectUses(fixture.catalog, [endpoint])).get(endpoint)?.transfer_bytes, last)
  assert.equal((await branchUses(fixture.catalog, endpoint)).get(endpoint)?.transfer_bytes, last)
})

test('what the catalog has added is not added again by who did not hear of it', async () => {
  const endpoint = await fixture.endpoint()
  let hears = false
  const { catalog } = fixture
  const deaf: Pick<Catalog, 'rows'> = {
    async rows(statement) {
      const rows = await catalog.rows(statement)
      if (!hears) throw new Error('Connection terminated unexpectedly')
      return rows as never
    },
  }
  const writer = createCountWriter(deaf as Catalog)
  writer.take(new Map([[endpoint, counts(100, 10, 1)]]))
  await assert.rejects(writer.write(), /terminated/)
  writer.take(new Map([[endpoint, counts(7, 5, 3)]]))
  await assert.rejects(writer.write(), /terminated/)
  assert.deepEqual(await trafficOf(endpoint), [100, 10, 1])
  hears = true
  await writer.write()
  assert.deepEqual(await trafficOf(endpoint), [107, 15, 4])
})

test('what is counted while the catalog is away is added when it is back', async () => {
  const [endpoint, other] = await Promise.all([fixture.endpoint(), fixture.endpoint()])
  const writer = createCountWriter(fixture.catalog)
  await fixture.catalogServer.stop('SIGQUIT')
  for (const id of [endpoint, other, endpoint]) {
    writer.take(new Map([[id, counts(1, 2, 3)]]))
    await assert.rejects(writer.write())
  }
  await fixture.catalogServer.start()
  await until(() =>
    writer.write().then(
      () => true,
      () => false,
    ),
  )
  assert.deepEqual(
    [await trafficOf(endpoint), await trafficOf(other)],
    [
      [2, 4, 6],
      [1, 2, 3],
    ],
  )
})

test('writers that add to the same endpoints do not lock each other out', async (t) => {
  const endpoints = await Promise.all(Array.from({ length: 20 }, () => fixture.endpoint()))
  // Force the nested-loop plan of a large catalog, which locks endpoints in the order of the input.
  const nested = encodeURIComponent('-c enable_hashjoin=off -c enable_mergejoin=off')
  const catalog = openCatalog(`${fixture.catalogUrl}&options=${nested}`, 8, () => {})
  t.after(() => catalog.close())
  const writers = Array.from({ length: 4 }, () => createCountWriter(catalog))
  for (let round = 0; round < 10; round++)
    await Promise.all(
      writers.map((writer, index) => {
        const order = index % 2 === 0 ? endpoints : endpoints.toReversed()
        writer.take(new Map(order.map((id) => [id, counts(1, 1, 1)])))
        return writer.write()
      }),
    )
  for (const endpoint of endpoints) assert.deepEqual(await trafficOf(endpoint), [40, 40, 40])
})

test('another month is another count, an endpoint that there is not is none, and what is old goes', async () => {
  const endpoint = await fixture.endpoint()
  const { catalog } = fixture
  const writer = createCountWriter(catalog)
  const write = async (id: string) => {
    writer.take(new Map([[id, counts(1, 1, 1)]]))
    await writer.write()
  }
  await write('ep-no-such-12345678')
  await write(endpoint)
  await catalog.rows(
    sql`update endpoint_traffic set month = month - interval '1 month' where endpoint_id = ${endpoint}`,
  )
  assert.deepEqual(await trafficOf(endpoint), [0, 0, 0])
  await write(endpoint)
  assert.deepEqual(await trafficOf(endpoint), [1, 1, 1])
  const months = async () =>
    (await catalog.rows(sql`select from endpoint_traffic where endpoint_id = ${endpoint}`)).length
  await expireTraffic(catalog, 100)
  assert.equal(await months(), 2)
  await catalog.rows(
    sql`update endpoint_traffic set month = month - interval '13 months' where endpoint_id = ${endpoint}`,
  )
  await expireTraffic(catalog, 100)
  assert.equal(await months(), 1)
})
