import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  byOptions,
  connect,
  type Fixture,
  makeFixture,
  NO_PSQL,
  observer,
  PASSWORD,
  psql,
  until,
} from '../../../test/proxy/fixture.ts'
import { pausesOf, type ProxyPause, registeredProxies } from '../../catalog/proxy.ts'
import { sql } from '../../catalog/sql.ts'
import type { Proxy } from '../proxy.ts'

let fixture: Fixture
let proxies: [Proxy, Proxy]
let pid: number

before(async () => {
  fixture = await makeFixture()
  proxies = [await fixture.proxy(), await fixture.proxy()]
  pid = await fixture.compute.start()
})
after(() => fixture.close())

const living = async () =>
  (await registeredProxies(fixture.catalog)).filter(({ lives }) => lives).map(({ number }) => number)

/** Pauses an endpoint, and waits until every live proxy has acknowledged. */
async function pause(endpointId: string): Promise<string> {
  const { id } = await fixture.operation(endpointId, 'suspend_compute')
  await fixture.pause(endpointId, id)
  await acknowledgedBy(id, (await living()).length)
  return id
}

function acknowledgedBy(operationId: string, proxyCount: number): Promise<ProxyPause[]> {
  return until(async () => {
    const holds = await pausesOf(fixture.catalog, operationId)
    return holds.length === proxyCount && holds
  })
}

const woken = async (operationId: string): Promise<boolean> =>
  (await pausesOf(fixture.catalog, operationId)).some((one) => one.woken)

test('who logs in while it is held is let in when it is open again, and puts nothing off', async () => {
  const endpoint = await fixture.endpoint(pid)
  const asked = Promise.withResolvers<void>()
  const given = Promise.withResolvers<string>()
  const password = () => {
    asked.resolve()
    return given.promise
  }
  const connecting = connect(proxies[0].port, endpoint, { password })
  await asked.promise
  const id = await pause(endpoint)
  assert.equal(await woken(id), false)
  given.resolve(PASSWORD)
  await until(() => woken(id))
  await fixture.pause(endpoint, null)
  await (await connecting).end()
})

/** Waits until Postgres' statistics include the last forwarded bytes. */
const bytesInStatistics = (): Promise<void> => sleep(300)

test('a query during a pause wakes the endpoint, waits at the proxy, and is answered after the pause', async () => {
  const endpoint = await fixture.endpoint(pid)
  const session = await connect(proxies[0].port, endpoint, { application_name: 'held' })
  await bytesInStatistics()
  const operation = await pause(endpoint)
  assert.equal(await woken(operation), false)

  const answer = session.query<{ n: number }>('select 7 as n')
  await until(() => woken(operation))
  const watching = await observer(fixture)
  const { rows } = await watching.query<{ query: string }>(
    "select query from pg_stat_activity where application_name = 'held'",
  )
  assert.notEqual(rows[0]?.query, 'select 7 as n')
  await fixture.pause(endpoint, null)
  assert.deepEqual((await answer).rows, [{ n: 7 }])
  assert.deepEqual((await session.query('select 8 as n')).rows, [{ n: 8 }])
  await session.end()
  await watching.end()
})

test('what was forwarded just before counts as wanting through', async () => {
  const endpoint = await fixture.endpoint(pid)
  const session = await connect(proxies[1].port, endpoint)
  await session.query('select 1')
  assert.equal(await woken(await pause(endpoint)), true)
  await fixture.pause(endpoint, null)
  await session.end()
})

test(
  'a new connection wakes and waits; others of the same endpoint and other endpoints go on',
  { skip: NO_PSQL },
  async () => {
    const endpoint = await fixture.endpoint(pid)
    const other = await fixture.endpoint(pid)
    const operation = await pause(endpoint)
    const connecting = connect(proxies[0].port, endpoint)
    await until(() => woken(operation))
    assert.equal((await psql(byOptions(proxies[0].port, other), 'select 1')).stdout, '1')
    await fixture.pause(endpoint, null)
    await (await connecting).end()
  },
)

test(
  'an endpoint that goes to sleep ends its sessions in the words of Postgres, and the next connection starts it',
  { skip: NO_PSQL },
  async () => {
    const endpoint = await fixture.endpoint(pid)
    const session = await connect(proxies[0].port, endpoint)
    await pause(endpoint)
    const ended = new Promise<Error & { code?: string }>((resolve) => {
      session.once('error', resolve)
    })
    await fixture.compute.stop()
    await fixture.idle(endpoint)
    assert.equal((await ended).code, '57P01')
    assert.equal((await psql(byOptions(proxies[0].port, endpoint), 'select 2')).stdout, '2')
  },
)

test('a proxy whose session in the catalog is lost registers again and says again what it holds', async () => {
  const endpoint = await fixture.endpoint(pid)
  const operation = await pause(endpoint)
  const old = await living()
  await fixture.catalog.rows(sql`
    select pg_terminate_backend(pid) from pg_locks
     where locktype = 'advisory' and objsubid = 2 and objid = ${old[0]}::int8::oid`)
  const renewed = await until(async () => {
    const now = await living()
    return now.length === 2 && !now.includes(old[0] ?? 0) && now
  })
  await until(
    async () =>
      (await pausesOf(fixture.catalog, operation)).filter((one) => renewed.includes(one.proxy_number)).length === 2,
  )
  await fixture.pause(endpoint, null)
})

test('a proxy that starts while an endpoint is held says so too, and one that stops is forgotten', async () => {
  const endpoint = await fixture.endpoint(pid)
  const operation = await pause(endpoint)
  const third = await fixture.proxy()
  await acknowledgedBy(operation, 3)
  await third.stop()
  assert.equal((await living()).length, 2)
  assert.equal((await fixture.catalog.rows(sql`select 1 from proxy`)).length, 2)
  await fixture.pause(endpoint, null)
})

test('sessions with a deleted endpoint or project end at once, direct and pooled', async () => {
  for (const table of ['endpoint', 'project'] as const) {
    const endpoint = await fixture.endpoint(pid)
    await fixture.catalog.rows(sql`update endpoint set pooler_enabled = true where id = ${endpoint}`)
    const [direct, pooled] = [
      await connect(proxies[0].port, endpoint),
      await connect(proxies[1].port, `${endpoint}-pooler`),
    ]
    await pooled.query('select 1')
    const ended = [direct, pooled].map((client) => new Promise<void>((resolve) => client.once('end', resolve)))
    const running = direct.query('select pg_sleep(600)').catch(() => undefined)
    await fixture.catalog.rows(
      table === 'endpoint'
        ? sql`update endpoint set deleted_at = now() where id = ${endpoint}`
        : sql`with deleted as (update project set deleted_at = now() where id = ${endpoint})
              update endpoint set pending_state = 'idle' where id = ${endpoint}`,
    )
    await Promise.all([...ended, running])
    await assert.rejects(connect(proxies[0].port, endpoint))
  }
})
