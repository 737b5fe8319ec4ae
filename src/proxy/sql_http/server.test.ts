import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { connect as tls, type TLSSocket } from 'node:tls'
import { WebSocket } from 'ws'
import { connect, DOMAIN, type Fixture, makeFixture, observer, PASSWORD, until } from '../../../test/proxy/fixture.ts'
import { type Parsed, sqlOverHttp, type SqlOverHttp } from '../../../test/proxy/sql_over_http.ts'
import type { Proxy } from '../proxy.ts'
import { PASSWORD_MESSAGE } from '../wire/message_types.ts'
import { encodeMessage } from '../wire/messages.ts'
import { encodeStartup, PROTOCOL_3_0 } from '../wire/startup.ts'

/* The start of HTTP on a connection, and the upgrade to WebSocket, byte by byte. */

let fixture: Fixture
let proxy: Proxy
let active: string
let over: SqlOverHttp

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  active = await fixture.endpoint(await fixture.compute.start())
  over = sqlOverHttp(fixture, proxy, active)
})
after(async () => {
  over.agent.destroy()
  await fixture.close()
})

test('other paths and methods are answered in JSON, and any page may ask', async () => {
  const missing = await over.ask({ method: 'GET', path: '/' })
  assert.deepEqual([missing.status, (JSON.parse(missing.text) as Parsed).code], [404, null])
  const wrong = await over.ask({ method: 'PUT' })
  assert.deepEqual([wrong.status, wrong.headers['allow']], [405, 'OPTIONS, POST'])
  const preflight = await over.ask({ method: 'OPTIONS', path: '/sql?x' })
  assert.equal(preflight.status, 200)
  assert.match(String(preflight.headers['access-control-allow-headers']), /Neon-Connection-String/)
  for (const { headers } of [missing, wrong, preflight, await over.ask({ body: '{"query":"select 1"}' })])
    assert.deepEqual([headers['access-control-allow-origin'], !headers['neon-request-id']], ['*', false])
})

/** Opens a direct TLS connection, without SSLRequest. */
async function directTls(...protocols: string[]): Promise<TLSSocket> {
  const socket = tls({
    host: '127.0.0.1',
    port: proxy.port,
    servername: `${active}.${DOMAIN}`,
    ca: readFileSync(fixture.caFile),
    ...(protocols.length > 0 && { ALPNProtocols: protocols }),
  })
  await once(socket, 'secureConnect')
  return socket
}

test('ALPN says which of the two protocols is spoken, and none means HTTP', async () => {
  const said = async (socket: TLSSocket, bytes: string | Buffer) => {
    socket.write(bytes)
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()
    return chunk.toString('latin1')
  }
  const startup = encodeStartup({ version: PROTOCOL_3_0, parameters: new Map([['user', 'alice']]) })
  assert.match(await said(await directTls('postgresql'), startup), /SCRAM-SHA-256/)
  const get = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'
  for (const protocols of [[], ['http/1.1'], ['h2', 'http/1.1']])
    assert.match(await said(await directTls(...protocols), get), /^HTTP\/1\.1 404/)
  assert.match(await said(await directTls(), startup), /^HTTP\/1\.1 400/)
  await assert.rejects(directTls('h2'))
})

test('who is slow with a request, or asks for another upgrade, is cut off', async () => {
  const slow = await directTls('http/1.1')
  slow.write('POST /sql HTTP/1.1\r\nhost: x\r\n')
  const chunks = (await slow.toArray()) as Buffer[]
  assert.match(Buffer.concat(chunks).toString(), /^HTTP\/1\.1 408/)
  const other = await directTls('http/1.1')
  other.write('GET /v2 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n')
  assert.match(Buffer.concat((await other.toArray()) as Buffer[]).toString(), /^HTTP\/1\.1 400/)
})

/** Opens a WebSocket as a driver does, and collects the messages of the proxy. */
async function webSocket(path = '/v2', host = `${active}.${DOMAIN}`) {
  const socket = new WebSocket(`wss://127.0.0.1:${proxy.port}${path}`, { headers: { host }, agent: over.agent })
  let received = ''
  socket.on('message', (data: Buffer) => (received += data.toString('latin1')))
  await once(socket, 'open')
  return { socket, closed: once(socket, 'close'), received: () => received }
}

const startupOf = (more: Record<string, string> = {}) =>
  encodeStartup({
    version: PROTOCOL_3_0,
    parameters: new Map(Object.entries({ user: 'alice', database: 'postgres', ...more })),
  })
const password = encodeMessage(PASSWORD_MESSAGE, Buffer.from(`${PASSWORD}\0`))
const query = encodeMessage(0x51, Buffer.from(`select 'here' || 'ami'\0`))
const SSL = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

test('a WebSocket takes everything at once or byte by byte, and says that it needs no TLS of its own', async () => {
  const whole = await webSocket()
  whole.socket.send(Buffer.concat([startupOf(), password, query]))
  await until(async () => whole.received().includes('hereami'))
  const slowly = await webSocket()
  for (const byte of Buffer.concat([SSL, startupOf(), password, query])) slowly.socket.send(Buffer.from([byte]))
  await until(async () => slowly.received().includes('hereami'))
  assert.equal(slowly.received()[0], 'N')
  for (const { socket, closed } of [whole, slowly]) {
    socket.send(encodeMessage(0x58))
    await closed
  }
})

test('a WebSocket says by its host, its address or its options which endpoint it means', async () => {
  const places: [string, string, Record<string, string>][] = [
    ['/', `${active}-pooler.${DOMAIN}:1`, {}],
    [`/v1?address=${active}.${DOMAIN}:5432`, 'localhost', {}],
    [`/v1?address=${active}.${DOMAIN}%3A5432`, `api.${DOMAIN}`, {}],
    ['/v2', 'localhost', { options: `endpoint=${active}` }],
  ]
  for (const [path, host, more] of places) {
    const { socket, received } = await webSocket(path, host)
    socket.send(Buffer.concat([startupOf(more), password, query]))
    await until(async () => received().includes('hereami'))
    socket.terminate()
  }
  const lost = await webSocket('/v2', 'localhost')
  lost.socket.send(Buffer.concat([startupOf(), password]))
  await lost.closed
  assert.match(lost.received(), /Endpoint ID is not specified/)
})

test('a text, a wrong password and garbage end a WebSocket', async () => {
  const spoken = await webSocket()
  spoken.socket.send('select 1')
  assert.equal((await spoken.closed)[0], 1003)
  const wrong = await webSocket()
  wrong.socket.send(Buffer.concat([startupOf(), encodeMessage(PASSWORD_MESSAGE, Buffer.from('wrong\0'))]))
  await wrong.closed
  assert.match(wrong.received(), /password authentication failed/)
  const garbage = await webSocket()
  garbage.socket.send(Buffer.alloc(100, 0xff))
  await garbage.closed
  assert.match(garbage.received(), /invalid length of startup packet/)
})

test('what a WebSocket asked for that is cut off ends, and Postgres beside it goes on', async () => {
  const { socket, received } = await webSocket()
  socket.send(Buffer.concat([startupOf({ application_name: 'cut' }), password]))
  await until(async () => received().endsWith('I'))
  const watching = await observer(fixture)
  const there = () => watching.query(`select 1 from pg_stat_activity where application_name = 'cut'`)
  assert.equal((await there()).rows.length, 1)
  socket.terminate()
  await until(async () => (await there()).rows.length === 0)
  await watching.end()
  const beside = await connect(proxy.port, active)
  assert.equal((await beside.query('select 1')).rowCount, 1)
  await beside.end()
})
