import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as tcp, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { connect as tls } from 'node:tls'
import type pg from 'pg'
import { connect, type Fixture, makeFixture, observer, until } from '../../../test/proxy/fixture.ts'
import { sql } from '../../catalog/sql.ts'
import type { Proxy } from '../proxy.ts'

/* Two proxies of one catalog. The sessions are at the first. */

let fixture: Fixture
let proxy: Proxy
let other: Proxy
let endpoint: string
let watching: pg.Client

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  other = await fixture.proxy()
  endpoint = await fixture.endpoint(await fixture.compute.start())
  watching = await observer(fixture)
})
after(async () => {
  await watching?.end()
  await fixture?.close()
})

interface Sleeper {
  readonly client: pg.Client
  readonly key: Buffer
  /** The SQLSTATE of the query's error. */
  readonly ended: Promise<string>
}

async function sleeper(): Promise<Sleeper> {
  const client = await connect(proxy.port, endpoint)
  const { processID, secretKey } = client as pg.Client & { processID: number; secretKey: number }
  const key = Buffer.alloc(8)
  key.writeInt32BE(processID, 0)
  key.writeInt32BE(secretKey, 4)
  const ended = client.query('select pg_sleep(600)').then(
    () => 'not cancelled',
    (error: unknown) => (error as pg.DatabaseError).code ?? '',
  )
  const one: Sleeper = { client, key, ended }
  await until(() => sleeps(one))
  return one
}

async function sleeps({ key }: Sleeper): Promise<boolean> {
  const { rowCount } = await watching.query(
    "select 1 from pg_stat_activity where pid = $1 and state = 'active' and wait_event = 'PgSleep'",
    [key.readInt32BE(0)],
  )
  return rowCount === 1
}

function cancelRequest(key: Buffer): Buffer {
  const packet = Buffer.alloc(8 + key.length)
  packet.writeInt32BE(packet.length, 0)
  packet.writeInt32BE(80_877_102, 4)
  key.copy(packet, 8)
  return packet
}

/** Sends a request and waits until the proxy has closed. */
async function request(port: number, key: Buffer, localAddress = '127.0.0.1'): Promise<void> {
  const socket = tcp({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => {})
  socket.resume()
  socket.end(cancelRequest(key))
  await once(socket, 'close')
}

test('a cancel request at another proxy cancels, also if its client closes at once, and within TLS', async () => {
  const hangUps: ((key: Buffer) => Promise<void>)[] = [
    (key) => request(other.port, key),
    async (key) => {
      const socket: Socket = tcp(other.port, '127.0.0.1')
      socket.write(cancelRequest(key), () => socket.destroy())
      await once(socket, 'close')
    },
    async (key) => {
      const plain = tcp(other.port, '127.0.0.1')
      plain.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))
      await once(plain, 'data')
      const socket = tls({ socket: plain, rejectUnauthorized: false })
      socket.end(cancelRequest(key))
      socket.resume()
      await once(socket, 'close')
    },
  ]
  for (const hangUp of hangUps) {
    const one = await sleeper()
    await hangUp(one.key)
    assert.equal(await one.ended, '57014')
    assert.equal((await one.client.query('select 1')).rowCount, 1)
    await one.client.end()
  }
})

test('a request with a wrong key, or from where nobody may connect from, cancels nothing', async () => {
  const allow = (ips: string[]) =>
    fixture.catalog.rows(
      sql`update project set settings = ${JSON.stringify({ allowed_ips: { ips } })} where id = ${endpoint}`,
    )
  await allow(['127.0.0.1'])
  const one = await sleeper()
  const last = await sleeper()
  const wrong = Buffer.from(one.key)
  wrong.writeUInt8(wrong.readUInt8(7) ^ 1, 7)
  for (const { port } of [proxy, other]) {
    await request(port, wrong)
    await request(port, one.key, '127.0.0.2')
  }
  // Notifications arrive in order: when this request is cancelled, the others have been processed.
  await request(other.port, last.key)
  assert.equal(await last.ended, '57014')
  assert.ok(await sleeps(one))
  await request(proxy.port, one.key)
  assert.equal(await one.ended, '57014')
  await Promise.all([one, last].map(({ client }) => client.end()))
  await allow([])
})

test('a flood from one network leaves requests from others as they are', async () => {
  const one = await sleeper()
  const flood = Array.from({ length: 300 }, () => request(other.port, Buffer.alloc(8, 7), '127.9.9.9'))
  await Promise.all(flood)
  await request(other.port, one.key, '127.9.9.9')
  assert.ok(await sleeps(one))
  await request(other.port, one.key)
  assert.equal(await one.ended, '57014')
  await one.client.end()
})
