import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as tcp, Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { connect, type Fixture, makeFixture, until } from '../../../test/proxy/fixture.ts'
import { ProxyError } from '../wire/errors.ts'
import { createLimits } from './limits.ts'

/* Limits per endpoint, per address, and of clients that never log in. */

const NONE = { perEndpoint: 0, perAddress: 0, loggingIn: 0, loggingInPerAddress: 0, newPerSecond: 0 }

let fixture: Fixture
let endpoint: string
let other: string

before(async () => {
  fixture = await makeFixture()
  const pid = await fixture.compute.start()
  endpoint = await fixture.endpoint(pid)
  other = await fixture.endpoint(pid)
})
after(() => fixture.close())

/** A connection is refused, and admitted after another one has ended. */
async function refusedUntilOneLeaves(port: number, there: { end(): Promise<void> }, text: string): Promise<void> {
  await assert.rejects(connect(port, endpoint), { code: '53300', message: text })
  await there.end()
  const next = await until(() => connect(port, endpoint).catch(() => undefined))
  await next.end()
}

test('an endpoint has as many connections at once as it may, and another has its own', async () => {
  const proxy = await fixture.proxy({ limits: { ...NONE, perEndpoint: 2 } })
  const [one, two, elsewhere] = await Promise.all([endpoint, endpoint, other].map((id) => connect(proxy.port, id)))
  assert.ok(one && two && elsewhere)
  await refusedUntilOneLeaves(proxy.port, one, 'Too many connections to this endpoint. Please try again later.')
  await Promise.all([two.end(), elsewhere.end()])
})

test('so has an address, whichever endpoint it is for', async () => {
  const proxy = await fixture.proxy({ limits: { ...NONE, perAddress: 2 } })
  const [one, two] = await Promise.all([endpoint, other].map((id) => connect(proxy.port, id)))
  assert.ok(one && two)
  await refusedUntilOneLeaves(proxy.port, one, 'Too many connections from this address. Please try again later.')
  await two.end()
})

test('those who are silent are only so many, and who has logged in is none of them', async () => {
  const proxy = await fixture.proxy({ limits: { ...NONE, loggingIn: 2 } })
  const sessions = [await connect(proxy.port, endpoint), await connect(proxy.port, endpoint)]
  const silent = [tcp(proxy.port, '127.0.0.1'), tcp(proxy.port, '127.0.0.1')]
  await Promise.all(silent.map((socket) => once(socket, 'connect')))
  const late = tcp(proxy.port, '127.0.0.1')
  const told = Buffer.concat((await late.toArray()) as Buffer[]).toString()
  assert.match(told, /^E.*C53300\0MToo many clients are about to log in/s)
  for (const socket of silent) socket.destroy()
  const next = await until(() => connect(proxy.port, endpoint).catch(() => undefined))
  await Promise.all([...sessions, next].map((client) => client.end()))
})

test('silent connections from one address leave room for those from another', async () => {
  const proxy = await fixture.proxy({ limits: { ...NONE, loggingIn: 10, loggingInPerAddress: 2 } })
  const silent = [1, 2, 3].map(() => tcp({ port: proxy.port, host: '127.0.0.1', localAddress: '127.0.0.9' }))
  const late = await Promise.race(silent.map(async (socket) => Buffer.concat((await socket.toArray()) as Buffer[])))
  assert.match(late.toString(), /^E.*C53300\0MToo many connections from this address/s)
  const client = await connect(proxy.port, endpoint)
  await client.end()
  for (const socket of silent) socket.destroy()
})

test('a crowd may come at once, but not go on coming, and others are not held up', () => {
  let time = 0
  const limits = createLimits({ ...NONE, newPerSecond: 500 }, () => time)
  const come = (count: number, one: () => void): number => {
    for (let came = 0; came < count; came++) {
      try {
        one()
      } catch (error) {
        assert.equal(error instanceof ProxyError && error.reason, 'too_many_new')
        return came
      }
    }
    return count
  }
  for (const [kind, at] of [
    ['strangers of one address', (endpointId: string) => limits.attempt(new Socket(), '127.0.0.1', endpointId)],
    ['clients of any', (endpointId: string) => limits.admit(new Socket(), endpointId)],
  ] as const) {
    assert.equal(
      come(2_000, () => at('ep-a')),
      2_000,
      kind,
    )
    assert.equal(
      come(10_000, () => at('ep-a')),
      3_000,
    )
    assert.equal(
      come(2_000, () => at('ep-b')),
      2_000,
    )
    time += 1_000
    assert.equal(
      come(10_000, () => at('ep-a')),
      500,
    )
    time += 60_000
    assert.equal(
      come(10_000, () => at('ep-a')),
      5_000,
    )
    time += 60_000
  }
  assert.equal(
    come(10_000, () => limits.attempt(new Socket(), '127.0.0.1', 'ep-a')),
    5_000,
  )
  assert.equal(
    come(100, () => limits.attempt(new Socket(), '127.0.0.2', 'ep-a')),
    100,
  )
})
