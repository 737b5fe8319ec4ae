import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import type { Pause, Traffic } from '../suspend/traffic.ts'
import type { Borrower } from './borrower.ts'
import { createPool, missingServers, type Pool, type ServerHooks } from './pool.ts'
import type { PoolServer } from './server_interface.ts'
import type { Waiter } from './wait_queue.ts'

/* The order in which clients get server connections, without sockets. */

/** A server connection whose loans and resets the test ends. */
interface FakeServer extends PoolServer {
  user: Borrower | undefined
  resets: number
  /** Its client has been answered, or its reset has: the pool may lend it again. */
  free(): void
}

interface Fixture {
  readonly pool: Pool
  readonly traffic: Traffic
  /** Opens that are under way. */
  readonly opening: { readonly done: (server: FakeServer) => void; readonly failed: (error: Error) => void }[]
  readonly servers: FakeServer[]
  empty: number
  /** Lets the oldest open succeed. */
  open(): Promise<FakeServer>
  /** Adds a waiting client. Returns its server connections and errors. */
  wait(sendsOneRequest?: boolean): Promise<(PoolServer | Error)[]>
}

/** A client that waits keeps a timer. */
const giveUps: (() => void)[] = []
afterEach(() => {
  for (const giveUp of giveUps.splice(0)) giveUp()
})

const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

function fakeServer(hooks: ServerHooks): FakeServer {
  const server = {
    user: undefined as Borrower | undefined,
    resets: 0,
    idleSince: 0,
    isFor: (client: Borrower) => server.user === undefined || server.user === client,
    isClean: () => server.user === undefined,
    parameters: () => new Map(),
    reset() {
      server.user = undefined
      server.resets++
    },
    close: () => hooks.onClosed(server as unknown as PoolServer),
    free: () => hooks.onIdle(server as unknown as PoolServer),
  }
  return server as unknown as FakeServer
}

function makeFixture(maxServers = 2): Fixture {
  const traffic = { pause: undefined } as unknown as Traffic
  let hooks: ServerHooks | undefined
  const pool = createPool({
    traffic,
    maxServers,
    open: (given) =>
      new Promise<PoolServer>((done, failed) => {
        hooks = given
        fixture.opening.push({ done, failed })
      }),
    onEmpty: () => fixture.empty++,
  })
  const fixture: Fixture = {
    pool,
    traffic,
    opening: [],
    servers: [],
    empty: 0,
    async open() {
      assert.ok(hooks, 'a client waits')
      const server = fakeServer(hooks)
      fixture.servers.push(server)
      fixture.opening.shift()?.done(server)
      await settled()
      return server
    },
    async wait(sendsOneRequest = true) {
      const got: (PoolServer | Error)[] = []
      const borrower = {} as Borrower
      const waiter: Waiter = {
        borrower,
        sendsOneRequest: () => sendsOneRequest,
        applicationName: () => '',
        onServer(server) {
          ;(server as FakeServer).user = borrower
          got.push(server)
        },
        onError: (error) => void got.push(error),
      }
      giveUps.push(pool.wait(waiter))
      await settled()
      return got
    },
  }
  return fixture
}

test('clients get connections in the order in which they came', async () => {
  const fixture = makeFixture(1)
  const [first, second, third] = [await fixture.wait(), await fixture.wait(), await fixture.wait()]
  assert.equal(fixture.opening.length, 1)
  const server = await fixture.open()
  assert.deepEqual([first, second, third], [[server], [], []])
  server.free()
  assert.deepEqual([second, third], [[server], []])
  server.free()
  assert.deepEqual(third, [server])
})

test('a client with more than one request waits for a reset, and others do not take its place', async () => {
  const fixture = makeFixture(1)
  await fixture.wait()
  const server = await fixture.open()
  const [many, one] = [await fixture.wait(false), await fixture.wait()]
  server.free()
  assert.deepEqual([server.resets, many, one], [1, [], []])
  server.free()
  assert.deepEqual([server.resets, many, one], [1, [server], []])
})

test('an idle connection is taken at once only while no client waits and the endpoint is not paused', async () => {
  const fixture = makeFixture(1)
  const { pool, traffic } = fixture
  await fixture.wait()
  const server = await fixture.open()
  const user = server.user as Borrower
  server.free()
  assert.equal(pool.takeFor({} as Borrower), undefined, 'another client has used it')
  traffic.pause = {} as Pause
  assert.equal(pool.takeFor(user) ?? pool.takeUsed(), undefined)
  traffic.pause = undefined
  assert.equal(pool.takeFor(user), server)
  const waiting = await fixture.wait()
  assert.equal(pool.takeUsed(), undefined)
  server.free()
  assert.deepEqual(waiting, [server])
})

test('clients that come during a pause ask once for its end, and are served then', async () => {
  const fixture = makeFixture(2)
  let wakes = 0
  const pause = Promise.withResolvers<void>()
  const paused: Pause = { operationId: 'op', wake: () => wakes++, over: pause.promise }
  fixture.traffic.pause = paused
  await fixture.wait()
  await fixture.wait()
  assert.deepEqual([fixture.opening.length, wakes], [0, 1])
  fixture.traffic.pause = undefined
  pause.resolve()
  await settled()
  assert.equal(fixture.opening.length, 2)
})

test('an open that fails fails the waiting clients, unless a connection that is lent will serve them', async () => {
  const fixture = makeFixture(2)
  await fixture.wait()
  const server = await fixture.open()
  const waiting = await fixture.wait()
  const error = new Error('no compute')
  fixture.opening.shift()?.failed(error)
  await settled()
  assert.deepEqual(waiting, [])
  server.close()
  await settled()
  fixture.opening.shift()?.failed(error)
  await settled()
  assert.deepEqual(waiting, [error])
  assert.equal(fixture.empty, 1)
})

test('connections are opened for clients that no reset will serve, four at a time, up to the limit', () => {
  assert.equal(missingServers(100, 0, 0, 20), 4)
  assert.equal(missingServers(100, 3, 0, 20), 1)
  assert.equal(missingServers(100, 2, 17, 20), 1)
  assert.equal(missingServers(100, 0, 20, 20), 0)
  assert.equal(missingServers(1, 0, 5, 20), 1)
  assert.equal(missingServers(-1, 0, 5, 20), 0)
})
