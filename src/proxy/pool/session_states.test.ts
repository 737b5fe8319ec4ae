import assert from 'node:assert/strict'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import { ProxyError } from '../wire/errors.ts'
import { encodeMessage, errorFields, MESSAGE_HEAD, messageAt } from '../wire/messages.ts'
import { ERROR_RESPONSE, EXECUTE, FLUSH, IDLE, IN_BLOCK, PARSE, QUERY, SYNC, TERMINATE } from '../wire/message_types.ts'
import type { Traffic } from '../suspend/traffic.ts'
import type { Borrower, Loss } from './borrower.ts'
import type { NewServerWaiter, Pool } from './pool.ts'
import type { PoolServer } from './server_interface.ts'
import { pooledSession, type PooledSession } from './session.ts'
import { createStatements } from './statements.ts'
import type { Waiter } from './wait_queue.ts'

/* A pooled client through its states, with a pool and server connections that the test controls. */

/** A server connection that records the client's bytes. */
interface FakeServer extends PoolServer {
  readonly sent: string[]
  borrower: Borrower | undefined
  resetting: boolean
  settled: boolean
}

interface Fixture {
  readonly session: PooledSession
  /** Waits for a server connection that have not ended. */
  readonly waiters: Set<Waiter>
  readonly waitersForNew: Set<NewServerWaiter>
  /** The client's stream has ended. */
  readonly isClosed: () => boolean
  /** Closes the client's end without Terminate. */
  readonly destroy: () => Promise<void>
  readonly send: (...messages: Buffer[]) => Promise<void>
  /** The messages that the client has received since the last call: the SQLSTATE of an error, or the type. */
  readonly received: () => string[]
  /** Lends a server connection to the client that waits. */
  readonly lend: (server?: FakeServer) => FakeServer
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

function fakeServer(computeId = 'one'): FakeServer {
  const server = {
    sent: [] as string[],
    borrower: undefined as Borrower | undefined,
    resetting: false,
    settled: false,
    computeId,
    unnamed: undefined,
    lend: (to: Borrower) => void (server.borrower = to),
    takeBack: () => void (server.borrower = undefined),
    close: () => void (server.borrower = undefined),
    cancel: () => Promise.resolve(),
    isResetting: () => server.resetting,
    isSettled: () => server.settled,
    isAnswered: () => server.settled,
    isInBatch: () => false,
    needsDrain: () => false,
    expect: () => {},
    settings: () => Array.from({ length: 8 }, () => '').join('\0'),
    mustReport: () => false,
    send: (bytes: Buffer) => void server.sent.push(bytes.toString('latin1')),
  }
  return server as unknown as FakeServer
}

function makeFixture(): Fixture {
  const waiters = new Set<Waiter>()
  const waitersForNew = new Set<NewServerWaiter>()
  const traffic = {
    sessions: new Set(),
    connections: 0,
    toClients: 0,
    fromClients: 0,
    pause: undefined,
    look: () => {},
  }
  const enter = <T>(queue: Set<T>, waiter: T): (() => void) => {
    queue.add(waiter)
    return () => void queue.delete(waiter)
  }
  const pool = {
    traffic: traffic as unknown as Traffic,
    statements: createStatements(),
    configured: () => '',
    takeFor: () => undefined,
    takeUsed: () => undefined,
    wait: (waiter: Waiter) => enter(waiters, waiter),
    waitForNew: (waiter: NewServerWaiter) => enter(waitersForNew, waiter),
  } as unknown as Pool
  let written = Buffer.alloc(0)
  const stream = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      written = Buffer.concat([written, chunk])
      done()
    },
  })
  const session = pooledSession(stream, pool, new Map(), (error) => error as ProxyError)
  return {
    session,
    waiters,
    waitersForNew,
    isClosed: () => stream.writableEnded,
    async destroy() {
      stream.destroy()
      await turn()
    },
    async send(...messages) {
      stream.push(Buffer.concat(messages))
      await turn()
    },
    received() {
      const all = typesIn(written)
      written = Buffer.alloc(0)
      return all
    },
    lend(server = fakeServer()) {
      const [waiter] = waiters
      assert.ok(waiter, 'the client waits')
      waiters.delete(waiter)
      waiter.onServer(server)
      return server
    },
  }
}

function typesIn(bytes: Buffer): string[] {
  const all: string[] = []
  for (let at = 0; at < bytes.length;) {
    const message = messageAt(bytes, at, bytes.length)
    assert.ok(message !== undefined && message !== 'invalid')
    const { type, body } = message
    const status = type === 0x5a ? ` ${body.toString()}` : ''
    all.push(type === ERROR_RESPONSE ? (errorFields(body).get('C') ?? '') : String.fromCharCode(type) + status)
    at += MESSAGE_HEAD + body.length
  }
  return all
}

const query = (sql: string): Buffer => encodeMessage(QUERY, Buffer.from(`${sql}\0`))
const text = (message: Buffer): string => message.toString('latin1')
const [one, two] = [query('select 1'), query('select 2')]

/** How a server connection ends that has received one query. @param more other fields */
const loss = (more: Partial<Loss> = {}): Loss => ({
  fatal: undefined,
  computeId: 'one',
  answered: false,
  neverRan: false,
  midMessage: false,
  inBatch: false,
  status: IDLE,
  unanswered: [{ kind: 'query' }],
  ...more,
})

test('messages wait together for a server connection, and the client is idle again after them', async () => {
  const { session, waiters, send, lend } = makeFixture()
  assert.equal(session.isSending(), false)
  await send(one)
  await send(two)
  assert.deepEqual([waiters.size, session.isSending()], [1, true])
  const server = lend()
  assert.deepEqual(server.sent, [text(one) + text(two)])
  server.borrower?.settled()
  assert.deepEqual([server.borrower, waiters.size], [undefined, 0])
  await send(one)
  assert.equal(waiters.size, 1)
})

test('a waiting query is cancelled or fails, and the client goes on', async () => {
  const { session, waiters, send, received, lend } = makeFixture()
  await send(one)
  await session.cancel()
  assert.deepEqual([waiters.size, received()], [0, ['57014', 'Z I']])
  await send(two)
  for (const waiter of waiters) waiter.onError(new ProxyError('pool_timeout'))
  waiters.clear()
  assert.deepEqual(received().slice(1), ['Z I'])
  await send(one)
  assert.deepEqual(lend().sent, [text(one)])
})

test('a batch that fails while it waits is skipped up to its Sync', async () => {
  const { session, waiters, send, received } = makeFixture()
  const parse = encodeMessage(PARSE, Buffer.from('\0select 1\0\0\0'))
  await send(parse)
  await session.cancel()
  assert.deepEqual(received(), ['57014'])
  await send(parse, encodeMessage(EXECUTE, Buffer.from('\0\0\0\0\0')))
  assert.deepEqual([waiters.size, received()], [0, []])
  await send(encodeMessage(SYNC))
  assert.deepEqual([waiters.size, received()], [0, ['Z I']])
  await send(one)
  assert.equal(waiters.size, 1)
})

test('messages behind a reset that failed are sent to another server connection, in order', async () => {
  const { send, received, lend, waiters } = makeFixture()
  await send(one)
  const reset = fakeServer()
  reset.resetting = true
  lend(reset)
  await send(two)
  assert.deepEqual(reset.sent, [text(one)])
  reset.borrower?.lost(loss({ neverRan: true }))
  assert.equal(waiters.size, 1)
  assert.deepEqual(lend().sent, [text(one) + text(two)])
  assert.deepEqual(received(), [])
})

test('messages behind a reset are sent once it has succeeded', async () => {
  const { send, lend } = makeFixture()
  await send(one)
  const server = fakeServer()
  server.resetting = true
  lend(server)
  await send(two)
  server.resetting = false
  server.borrower?.onReset()
  assert.deepEqual(server.sent, [text(one), text(two)])
})

test('a query that a shutdown has ended is repeated on the next compute only', async () => {
  const fatal = { code: '57P01', text: 'terminating connection' }
  for (const computeId of ['one', 'two']) {
    const { send, lend, received, waitersForNew } = makeFixture()
    await send(one)
    lend().borrower?.lost(loss({ fatal }))
    const next = fakeServer(computeId)
    for (const waiter of waitersForNew) waiter.onServer(next)
    assert.deepEqual(next.sent, computeId === 'two' ? [text(one)] : [])
    assert.deepEqual(received(), computeId === 'two' ? [] : ['57P01', 'Z I'])
  }
})

test('after the loss of a transaction, statements fail without a server connection until ROLLBACK', async () => {
  const { send, received, lend, waiters } = makeFixture()
  await send(query('begin'))
  const { borrower } = lend()
  borrower?.receive(Buffer.alloc(0))
  borrower?.answered()
  borrower?.lost(loss({ status: IN_BLOCK, unanswered: [] }))
  await send(one)
  assert.deepEqual(received(), ['40001', 'Z E'])
  await send(two, encodeMessage(FLUSH))
  assert.deepEqual(received(), ['25P02', 'Z E'])
  await send(query('rollback'))
  assert.deepEqual([received(), waiters.size], [['C', 'Z I'], 0])
  await send(one)
  assert.equal(waiters.size, 1)
})

test('a client that sends Terminate needs no server connection', async () => {
  const { send, isClosed, waiters } = makeFixture()
  await send(encodeMessage(TERMINATE))
  assert.deepEqual([isClosed(), waiters.size], [true, 0])
})

test('a client that sends Terminate after a lost transaction needs no server connection', async () => {
  const { send, isClosed, lend, waiters } = makeFixture()
  await send(query('begin'))
  lend().borrower?.lost(loss({ status: IN_BLOCK, unanswered: [] }))
  await send(query('rollback'))
  await send(encodeMessage(TERMINATE))
  assert.deepEqual([isClosed(), waiters.size], [true, 0])
})

test('a client that vanishes gives up its wait, or has its query cancelled', async () => {
  const waiting = makeFixture()
  await waiting.send(one)
  await waiting.destroy()
  assert.equal(waiting.waiters.size, 0)
  const lent = makeFixture()
  await lent.send(one)
  const server = lent.lend()
  let cancels = 0
  server.cancel = () => Promise.resolve(void cancels++)
  await lent.destroy()
  assert.deepEqual([server.borrower, cancels], [undefined, 1])
})
