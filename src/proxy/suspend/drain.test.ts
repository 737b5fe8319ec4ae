import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { connect, type Fixture, makeFixture, until } from '../../../test/proxy/fixture.ts'
import { pausesOf } from '../../catalog/proxy.ts'

let fixture: Fixture
let endpoint: string

before(async () => {
  fixture = await makeFixture()
  endpoint = await fixture.endpoint(await fixture.compute.start())
})
after(() => fixture?.close())

test('a draining proxy refuses clients, and takes part in suspends until its last session has ended', async () => {
  const proxy = await fixture.proxy()
  const session = await connect(proxy.port, endpoint)
  let isOver = false
  const drained = proxy.drain(600_000).then(() => (isOver = true))
  await assert.rejects(connect(proxy.port, endpoint), { code: 'ECONNREFUSED' })

  const { id } = await fixture.operation(endpoint, 'suspend_compute')
  await fixture.pause(endpoint, id)
  await until(async () => (await pausesOf(fixture.catalog, id)).length === 1)
  const asked = session.query<{ n: number }>('select 7 as n')
  await until(async () => (await pausesOf(fixture.catalog, id))[0]?.woken)
  await fixture.pause(endpoint, null)
  assert.deepEqual((await asked).rows, [{ n: 7 }])

  assert.equal(isOver, false)
  await session.end()
  await drained
  await proxy.stop()
})

test('a proxy without sessions has drained at once, and one that is stopped meanwhile ends those it has', async () => {
  const empty = await fixture.proxy()
  await empty.drain(600_000)
  await empty.stop()

  const proxy = await fixture.proxy()
  const session = await connect(proxy.port, endpoint)
  const ended = new Promise<Error & { code?: string }>((resolve) => {
    session.once('error', resolve)
  })
  const drained = proxy.drain(600_000)
  await proxy.stop()
  await drained
  assert.equal((await ended).code, '57P01')
})
