import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:https'
import { connect as tcp, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { connect as overTls } from 'node:tls'
import pg from 'pg'
import { sql } from '../../src/catalog/sql.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { DOMAIN, type Fixture, makeFixture, PASSWORD } from '../proxy/fixture.ts'

/* A client forges a PROXY header to appear as an allowed one: only configured forwarders are trusted. */

const [UNTRUSTED, FORWARDER, ALLOWED] = ['127.0.0.1', '127.0.0.2', '192.0.2.7'] as const
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

let fixture: Fixture
let proxy: Proxy
let endpoint: string

before(async () => {
  fixture = await makeFixture()
  const forwarders = { proxyProtocol: [`${FORWARDER}/32`], forwardedFor: ['127.0.0.3/32'] }
  proxy = await fixture.proxy({ forwarders })
  endpoint = await fixture.endpoint(await fixture.compute.start())
  const settings = JSON.stringify({ allowed_ips: { ips: [ALLOWED] } })
  await fixture.catalog.rows(sql`update project set settings = ${settings} where id = ${endpoint}`)
})
after(() => fixture.close())

const header = (source: string): Buffer => Buffer.from(`PROXY TCP4 ${source} 198.51.100.1 1024 5432\r\n`)

async function open(localAddress: string, ...first: readonly Buffer[]): Promise<Socket> {
  const socket = tcp({ host: '127.0.0.1', port: proxy.port, localAddress })
  socket.on('error', () => {})
  await once(socket, 'connect')
  for (const bytes of first) socket.write(bytes)
  return socket
}

/** The first bytes or the query result of a session that starts with these bytes, or the error sent to the client. */
async function session(localAddress: string, ...first: readonly Buffer[]): Promise<string> {
  const plain = await open(localAddress, ...first, SSL_REQUEST)
  const [answer] = (await once(plain, 'data')) as [Buffer]
  if (answer[0] !== 0x53) return answer.toString('latin1')
  const stream = overTls({ socket: plain, rejectUnauthorized: false })
  await once(stream, 'secureConnect')
  const options = `endpoint=${endpoint}`
  const client = new pg.Client({
    stream: () => connected(stream),
    user: 'alice',
    database: 'postgres',
    password: PASSWORD,
    options,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ one: number }>('select 1 as one')
    await client.end()
    return String(rows[0]?.one)
  } catch (error) {
    return (error as Error).message
  }
}

/** The driver would connect the stream, which is connected already. */
function connected<T extends { connect: unknown; emit: (event: string) => boolean }>(stream: T): T {
  stream.connect = () => setImmediate(() => stream.emit('connect'))
  return stream
}

test('the PROXY header of a configured forwarder sets the client address', async () => {
  assert.equal(await session(FORWARDER, header(ALLOWED)), '1')
  assert.match(await session(FORWARDER, header('192.0.2.8')), /192\.0\.2\.8 is not allowed/)
})

test('the PROXY header of any other client is refused', async () => {
  assert.match(await session(UNTRUSTED), /127\.0\.0\.1 is not allowed/)
  assert.match(await session(UNTRUSTED, header(ALLOWED)), /invalid length of startup packet/)
})

test('a forwarder must send one PROXY header, and its clients cannot add another', async () => {
  assert.match(await session(FORWARDER, header('192.0.2.8'), header(ALLOWED)), /invalid length of startup packet/)
  assert.match(await session(FORWARDER), /PROXY protocol is required/)
})

test('incomplete PROXY headers delay no other client and time out', async () => {
  const slow = await Promise.all(Array.from({ length: 50 }, () => open(FORWARDER, Buffer.from('PROXY TCP4 '))))
  assert.equal(await session(FORWARDER, header(ALLOWED)), '1')
  await Promise.all(slow.map((socket) => once(socket.resume(), 'close')))
})

test('X-Forwarded-For counts only from configured proxies, and only the entries they added', async () => {
  const ask = async (localAddress: string, forwarded?: string): Promise<string> => {
    const headers = {
      'neon-connection-string': `postgresql://alice:${PASSWORD}@${endpoint}.${DOMAIN}/postgres`,
      ...(forwarded !== undefined && { 'x-forwarded-for': forwarded }),
    }
    const options = {
      host: '127.0.0.1',
      port: proxy.port,
      localAddress,
      rejectUnauthorized: false,
      agent: false as const,
    }
    const asked = request({ ...options, method: 'POST', path: '/sql', headers })
    asked.end('{"query":"select 1 as one"}')
    const [response] = (await once(asked, 'response')) as [NodeJS.ReadableStream]
    return text(response)
  }
  assert.match(await ask('127.0.0.3', ALLOWED), /"one":1/)
  assert.match(await ask('127.0.0.3', `192.0.2.8, ${ALLOWED}`), /"one":1/)
  assert.match(await ask('127.0.0.3', `${ALLOWED}, 192.0.2.8`), /192\.0\.2\.8 is not allowed/)
  assert.match(await ask('127.0.0.3', `${ALLOWED}, 192.0.2.8, 127.0.0.3`), /192\.0\.2\.8 is not allowed/)
  assert.match(await ask('127.0.0.3'), /127\.0\.0\.3 is not allowed/)
  assert.match(await ask(UNTRUSTED, ALLOWED), /127\.0\.0\.1 is not allowed/)
})
