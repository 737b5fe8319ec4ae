import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as tcp, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { connect as overTls } from 'node:tls'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { encodeMessage, int32, MESSAGE_HEAD } from '../../src/proxy/wire/messages.ts'
import { encodeStartup, PROTOCOL_3_0, SSL_REQUEST } from '../../src/proxy/wire/startup.ts'
import { type Random, randomOf } from '../random.ts'
import { connect, observer, until } from './fixture.ts'
import { makeScene, type Scene } from './protocol.ts'
import { bind, copyData, execute, flush, parse, query, rawClient, run, sync } from './protocol_client.ts'

/*
 * Malformed input at every state of a connection. NEAP_FUZZ_SEED repeats a run; NEAP_FUZZ_CONNECTIONS is the number of
 * connections in all. Each connection gets whole messages and a close, other clients are not affected, and no session
 * and no memory leaks.
 */

const SEED = Number(process.env['NEAP_FUZZ_SEED'] ?? Date.now() % 1_000_000)
const CONNECTIONS = Number(process.env['NEAP_FUZZ_CONNECTIONS'] ?? 600)
const AT_ONCE = 12
/** Sockets and their buffers are freed some time after they are closed. */
const MAX_GROWTH = 24 * 2 ** 20

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

let scene: Scene
/** An endpoint for wrong passwords, so that their limits do not slow down other clients. */
let guessed: string
before(async () => {
  scene = await makeScene()
  guessed = await scene.fixture.endpoint(1)
})
after(() => scene.fixture.close())

/** The states in which malformed input is sent, each reached by valid messages. */
const STATES: Record<string, (random: Random) => Promise<Socket>> = {
  'before anything': async () => plain(),
  'after S': async () => asked(),
  'in TLS': async () => secured(),
  'in TLS from the first byte': async () => await over(plain()),
  'at the first message of SASL': async () => {
    const socket = await secured()
    socket.write(startup(guessed))
    return socket
  },
  'at the second message of SASL': async () => {
    const socket = await secured()
    const first = Buffer.from('n,,n=,r=fuzz')
    socket.write(startup(guessed))
    await once(socket, 'readable')
    socket.write(encodeMessage(0x70, Buffer.from('SCRAM-SHA-256\0'), int32(first.length), first))
    return socket
  },
  'at rest, direct': () => loggedIn('direct'),
  'at rest, pooled': () => loggedIn('pooled'),
  'in a batch, direct': () => loggedIn('direct', run('select 1'), flush()),
  'in a batch, pooled': () => loggedIn('pooled', run('select 1'), flush()),
  'in a transaction, pooled': () => loggedIn('pooled', query("begin; insert into item values (1, 'x')")),
  'behind an error, pooled': () => loggedIn('pooled', parse('', 'nonsense'), flush()),
  'in a COPY, direct': () => loggedIn('direct', query('copy arrived from stdin'), copyData('x\n')),
  'in a COPY, pooled': () => loggedIn('pooled', query('copy arrived from stdin'), copyData('x\n')),
}

function plain(): Socket {
  const socket = tcp(scene.proxy.port, '127.0.0.1')
  socket.on('error', () => {})
  return socket
}

async function asked(): Promise<Socket> {
  const socket = plain()
  socket.write(Buffer.concat([int32(8), int32(SSL_REQUEST)]))
  await once(socket, 'readable')
  socket.read(1)
  return socket
}

async function over(socket: Socket): Promise<Socket> {
  const secure = overTls({ socket, rejectUnauthorized: false, ALPNProtocols: ['postgresql'] })
  secure.on('error', () => {})
  await once(secure, 'secureConnect')
  return secure
}

const secured = async (): Promise<Socket> => over(await asked())

const startup = (endpoint: string): Buffer =>
  encodeStartup({
    version: PROTOCOL_3_0,
    parameters: new Map(Object.entries({ user: 'alice', database: 'postgres', options: `endpoint=${endpoint}` })),
  })

async function loggedIn(kind: 'direct' | 'pooled', ...messages: Buffer[]): Promise<Socket> {
  const client = await rawClient(scene.way(kind))
  client.socket.removeAllListeners('data')
  if (messages.length > 0) client.send(...messages)
  return client.socket
}

/** Messages that are valid at one state or another. */
const MESSAGES: readonly ((random: Random) => Buffer)[] = [
  () => startup('ep-nowhere-00000000'),
  () => Buffer.concat([int32(8), int32(SSL_REQUEST)]),
  () => Buffer.concat([int32(16), int32(80_877_102), int32(1), int32(2)]),
  () => encodeMessage(0x70, Buffer.from('c=biws,r=fuzz,p=AAAA\0')),
  () => query('select 1'),
  () => parse('a', 'select $1::text', 25),
  () => bind('', 'a', 'x'),
  () => execute(),
  () => sync(),
  () => copyData('x\n'),
  (random) => encodeMessage(random.between(0, 255), bytes(random, random.between(0, 50))),
]

const bytes = (random: Random, count: number): Buffer =>
  Buffer.from(Array.from({ length: count }, () => random.between(0, 255)))

/** Generators of malformed input. */
const MALFORMED: readonly ((random: Random) => Buffer)[] = [
  (random) => bytes(random, random.between(1, 2_000)),
  (random) => {
    const message = random.pick(MESSAGES)(random)
    return message.subarray(0, random.between(1, message.length))
  },
  (random) => {
    const length = int32(random.pick([0, 1, 3, -1, 2 ** 31 - 1, 2 ** 30, 9]))
    return Buffer.concat([Buffer.of(random.pick([...Buffer.from('QPBDECSHFXdcfp'), 0])), length, bytes(random, 20)])
  },
  (random) => Buffer.concat([int32(random.pick([0, 1, 3, 7, -1, 2 ** 31 - 1, 10_001])), bytes(random, 20)]),
  (random) => {
    const message = random.pick(MESSAGES)(random)
    return Buffer.concat([message, message, message])
  },
  (random) => {
    const messages = Buffer.concat([random.pick(MESSAGES)(random), random.pick(MESSAGES)(random), sync()])
    for (let count = random.between(1, 4); count > 0; count--)
      messages[random.between(0, messages.length - 1)] = random.between(0, 255)
    return messages
  },
]

/**
 * Sends the bytes, whole or one at a time, and waits for the close. Returns the received bytes, possibly cut if it
 * destroys the socket instead of ending it.
 */
async function speak(socket: Socket, said: Buffer, random: Random): Promise<{ came: Buffer; waited: boolean }> {
  const came: Buffer[] = []
  const closed = new Promise((resolve) => {
    socket.once('close', resolve)
    if (socket.destroyed) resolve(undefined)
  })
  socket.on('data', (chunk: Buffer) => came.push(chunk))
  if (random.chance(0.2))
    for (const byte of said.subarray(0, 200)) {
      socket.write(Buffer.of(byte))
      await new Promise(setImmediate)
    }
  else socket.write(said)
  const waited = random.chance(0.9)
  if (waited) socket.end()
  else socket.destroy()
  await closed
  return { came: Buffer.concat(came), waited }
}

/** Whether the bytes are whole messages. */
function areMessages(said: Buffer): boolean {
  let at = 0
  while (at + MESSAGE_HEAD <= said.length) {
    const length = said.readInt32BE(at + 1)
    if (length < 4) return false
    at += 1 + length
  }
  return at === said.length
}

/** A client with valid queries. Returns their number. */
async function control(kind: 'direct' | 'pooled', isOver: () => boolean): Promise<number> {
  const client = await connect(scene.proxy.port, scene.host(kind))
  let count = 0
  for (; !isOver(); count++) {
    const { rows } = await client.query<{ n: number }>({
      name: 'control',
      text: 'select $1::int as n',
      values: [count],
    })
    assert.deepEqual(rows, [{ n: count }])
    await new Promise((resolve) => {
      setTimeout(resolve, 5)
    })
  }
  await client.end()
  return count
}

async function heap(): Promise<number> {
  for (let turn = 0; turn < 3; turn++) {
    await new Promise(setImmediate)
    collectGarbage()
  }
  return process.memoryUsage().heapUsed
}

test(`${CONNECTIONS} connections with malformed input, seed ${SEED}`, { timeout: 900_000 }, async () => {
  let isOver = false
  const controls = Promise.all((['direct', 'pooled'] as const).map((kind) => control(kind, () => isOver)))
  let next = 0
  const names = Object.keys(STATES)

  async function talk(most: number): Promise<void> {
    while (next < most) {
      const number = next++
      const random = randomOf(SEED, `connection ${number}`)
      const name = names[number % names.length] ?? ''
      const where = `seed ${SEED}, connection ${number}, ${name}`
      const socket = await STATES[name]?.(random)
      assert.ok(socket)
      const said = random.pick(MALFORMED)(random)
      const late = setTimeout(() => console.error(`still open: ${where}: ${said.toString('hex')}`), 30_000)
      const { came, waited } = await speak(socket, said, random)
      clearTimeout(late)
      // In these states the answer may be that of TLS.
      const isTold = waited && name !== 'after S' && name !== 'before anything'
      if (isTold) assert.ok(areMessages(came), `${where}: ${said.toString('hex')}: ${came.toString('latin1')}`)
    }
  }
  const all = async (count: number): Promise<void> => {
    await Promise.race([controls, Promise.all(Array.from({ length: AT_ONCE }, () => talk(count)))])
  }

  await all(Math.floor(CONNECTIONS / 3))
  const used = await heap()
  await all(CONNECTIONS)
  isOver = true
  const served = await controls
  assert.ok(served.every((count) => count > 0))
  const growth = (await heap()) - used
  assert.ok(growth < MAX_GROWTH, `the heap grew by ${Math.round(growth / 2 ** 20)} MB`)

  const watcher = await observer(scene.fixture)
  await until(async () => {
    const { rows } = await watcher.query("select 1 from pg_stat_activity where usename = 'alice' and state <> 'idle'")
    return rows.length === 0
  })
  assert.deepEqual((await watcher.query('select (select count(*)::int from item) as items')).rows, [{ items: 0 }])
  await watcher.end()
  // All sessions of the pool are available.
  const clients = await Promise.all([1, 2].map(() => connect(scene.proxy.port, scene.host('pooled'))))
  for (const client of clients) await client.query('begin')
  for (const client of clients) await client.query('rollback')
  await Promise.all(clients.map((client) => client.end()))
})
