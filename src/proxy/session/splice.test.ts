import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect as tcp, createServer, type AddressInfo, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { connect as tls, type TLSSocket } from 'node:tls'
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
import type { Proxy } from '../proxy.ts'
import { createTrafficTable } from '../suspend/traffic.ts'
import { encodeStartup } from '../wire/startup.ts'
import { spliceSession } from './splice.ts'

let fixture: Fixture
let proxy: Proxy
let active: string

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  active = await fixture.endpoint(await fixture.compute.start())
})
after(() => fixture.close())

const MIB = 1 << 20

test('a slow reader slows the compute down instead of filling the proxy', { skip: NO_PSQL }, async (t) => {
  const watching = await observer(fixture)
  const rss = process.memoryUsage.rss()
  const rows = 200
  const command = `copy (select repeat('x', ${MIB}) from generate_series(1, ${rows})) to stdout`
  const child = spawn('psql', ['-XAtq', byOptions(proxy.port, active, 'application_name=slow'), '-c', command], {
    env: { PATH: process.env['PATH'], PGPASSWORD: PASSWORD },
  })
  t.after(() => child.kill('SIGKILL'))
  // psql's output is not read: the compute must block with most of it unsent.
  let still = 0
  let begun = false
  while (still < 50) {
    const {
      rows: [found],
    } = await watching.query<{ state: string; wait_event: string }>(
      "select state, wait_event from pg_stat_activity where application_name = 'slow'",
    )
    assert.ok(!begun || found?.state === 'active', 'the compute could send everything')
    begun ||= found?.state === 'active'
    still = found?.wait_event === 'ClientWrite' ? still + 1 : 0
  }
  assert.ok(process.memoryUsage.rss() - rss < 64 * MIB)
  let bytes = 0
  child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  await once(child, 'close')
  assert.equal(bytes, rows * (MIB + 1))
  await watching.end()
})

/** Both ends of a TCP connection. */
async function pair(): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const near = tcp({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true })
  const [far] = (await once(server, 'connection')) as [Socket]
  server.close()
  return [near, far]
}

test('a compute that does not read slows the client down, and every byte comes in its order', async () => {
  const [client, clientSide] = await pair()
  const [computeSide, compute] = await pair()
  const table = createTrafficTable()
  const session = spliceSession(clientSide, table.enter('ep'))
  session.attach(computeSide, Buffer.from([0x5a, 0, 0, 0, 5, 0x49]), 'one')
  const all = Buffer.alloc(64 * MIB, 'abcdefghijklmnopqrstuvwxyz'.repeat(37))
  let most = 0
  clientSide.on('data', () => {
    most = Math.max(most, computeSide.writableLength)
  })
  client.end(all)
  while (!clientSide.isPaused()) await once(clientSide, 'pause')
  const received = (await compute.toArray()) as Buffer[]
  assert.ok(Buffer.concat(received).equals(all))
  assert.ok(most < MIB, `${most} bytes were kept in the proxy`)
  compute.end()
  client.resume()
  await once(client, 'close')
})

test('half-closed, a session still delivers what the compute sends', async () => {
  const [client, clientSide] = await pair()
  const [computeSide, compute] = await pair()
  spliceSession(clientSide, createTrafficTable().enter('ep')).attach(computeSide, Buffer.from('first'), 'one')
  client.end('question')
  assert.equal(String(Buffer.concat(await compute.toArray())), 'question')
  compute.end(' and last')
  assert.equal(String(Buffer.concat(await client.toArray())), 'first and last')
})

/** Reproducible pseudo-random numbers (mulberry32). */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

async function overTls(): Promise<TLSSocket> {
  const socket = tcp(proxy.port, '127.0.0.1')
  socket.write(SSL_REQUEST)
  await once(socket, 'data')
  const secure = tls({ socket, rejectUnauthorized: false })
  await once(secure, 'secureConnect')
  return secure
}

test('random bytes at every stage leave the proxy serving', { skip: NO_PSQL }, async () => {
  const seed = Number(process.env['SEED'] ?? 20_261)
  const next = random(seed)
  const junk = (): Buffer =>
    Buffer.from(Array.from({ length: 1 + Math.floor(next() * 300) }, () => Math.floor(next() * 256)))
  const framed = (bytes: Buffer): Buffer => {
    const head = Buffer.alloc(8)
    head.writeInt32BE(8 + bytes.length)
    head.writeInt32BE(next() < 0.8 ? 3 << 16 : Math.floor(next() * 2 ** 31), 4)
    return Buffer.concat([head, bytes])
  }
  const startup = encodeStartup({
    version: 3 << 16,
    parameters: new Map([
      ['user', 'alice'],
      ['options', `endpoint=${active}`],
    ]),
  })
  const stages: (() => Promise<Socket>)[] = [
    async () => send(tcp(proxy.port, '127.0.0.1'), junk()),
    async () => send(tcp(proxy.port, '127.0.0.1'), framed(junk())),
    async () => {
      const socket = send(tcp(proxy.port, '127.0.0.1'), SSL_REQUEST)
      await once(socket, 'data')
      return send(socket, junk())
    },
    async () => send(await overTls(), junk()),
    async () => send(await overTls(), framed(junk())),
    async () => send(await overTls(), Buffer.concat([startup, junk()])),
    async () => {
      const socket = send(await overTls(), startup)
      await once(socket, 'data')
      return send(socket, junk())
    },
    async () => send(await overTls(), startup.subarray(0, Math.floor(next() * startup.length))),
  ]
  for (let round = 0; round < 15; round++) {
    const sockets = await Promise.all(stages.map((stage) => stage()))
    for (const socket of sockets) {
      if (next() < 0.5) socket.destroy()
      else socket.resume().end()
    }
  }
  assert.equal((await psql(byOptions(proxy.port, active), 'select 1')).stdout, '1', `seed ${seed}`)
  const watching = await observer(fixture)
  await until(
    async () => (await watching.query("select 1 from pg_stat_activity where usename = 'alice'")).rowCount === 0,
  )
  await watching.end()
})

function send<S extends Socket>(socket: S, bytes: Buffer): S {
  socket.on('error', () => {})
  socket.write(bytes)
  return socket
}

test('TLS from the first byte on is understood too', async () => {
  const session = tls({ port: proxy.port, host: '127.0.0.1', ALPNProtocols: ['postgresql'], rejectUnauthorized: false })
  session.write(
    encodeStartup({
      version: 3 << 16,
      parameters: new Map([
        ['user', 'alice'],
        ['options', `endpoint=${active}`],
      ]),
    }),
  )
  const [first] = (await once(session, 'data')) as [Buffer]
  assert.equal(first.toString('latin1', 0, 1), 'R')
  assert.equal(session.alpnProtocol, 'postgresql')
  session.destroy()
})

test('a client that vanishes while its endpoint is being reached leaves nothing behind', async () => {
  const idle = await fixture.endpoint()
  const { promise: asked, resolve } = Promise.withResolvers<void>()
  const never = await fixture.proxy({
    requestStart: () => {
      resolve()
      return new Promise(() => {})
    },
  })
  const connecting = connect(never.port, idle).catch(() => 'refused')
  await asked
  await never.stop()
  assert.equal(await connecting, 'refused')
})
