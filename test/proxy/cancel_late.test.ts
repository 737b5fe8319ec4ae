import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { registerProxy } from '../../src/catalog/proxy.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { observer, until } from './fixture.ts'
import { makeScene, type Scene } from './protocol.ts'
import { cancel, query, rawClient } from './protocol_client.ts'

/*
 * Postgres closes the connection of a cancel request once it has signalled the session, and programs rely on that: the
 * next statement they run is not cancelled. The sessions are at one proxy, and the cancel requests go to the other.
 */

/** Below the limit of cancel requests of one network in ten seconds. */
const LOOPS = 90

let scene: Scene
let other: Proxy
before(async () => {
  scene = await makeScene()
  other = await scene.fixture.proxy()
})
after(() => scene.fixture.close())

for (const kind of ['direct', 'pooled'] as const)
  test(`a cancel request does not cancel a later statement, ${kind}`, { timeout: 60_000 }, async () => {
    const client = await rawClient(scene.way(kind))
    let cancelled = 0
    for (let loop = 0; loop < LOOPS; loop++) {
      // The statement ends at about the time when the request comes.
      client.send(query(`select pg_sleep(${(loop % 10) / 1000})`))
      const [answer] = await Promise.all([client.answer(), cancel(other.port, client.key)])
      if (answer.some((message) => message.startsWith('E 57014'))) cancelled++
      client.send(query('select 1 from pg_sleep(0.002)'))
      assert.deepEqual(await client.answer(), ['T 1', 'D 1', 'C SELECT 1', 'Z I'], `loop ${loop}`)
    }
    assert.ok(cancelled > 0, 'some were cancelled')
    client.close()
  })

test('a cancel request with an unknown key is closed at once', { timeout: 4_000 }, async () => {
  for (let loop = 0; loop < 10; loop++) await cancel(other.port, Buffer.alloc(8, loop))
})

test('a registered proxy that does not answer delays no cancel request', async () => {
  const silent = await scene.fixture.catalog.session()
  await registerProxy(silent)
  const client = await rawClient(scene.way('direct'))
  client.send(query('select pg_sleep(600)'))
  const watcher = await observer(scene.fixture)
  await until(
    async () => (await watcher.query("select 1 from pg_stat_activity where wait_event = 'PgSleep'")).rowCount === 1,
  )
  await Promise.all([cancel(other.port, client.key), cancel(other.port, Buffer.alloc(8, 77))])
  assert.match((await client.answer()).join(), /E 57014/)
  await Promise.all([watcher.end(), silent.end()])
  client.close()
})
