import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { connect as tls, type TLSSocket } from 'node:tls'
import { WebSocket } from 'ws'
import { PASSWORD_MESSAGE } from '../../src/proxy/wire/message_types.ts'
import { encodeMessage } from '../../src/proxy/wire/messages.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { encodeStartup, PROTOCOL_3_0 } from '../../src/proxy/wire/startup.ts'
import { DOMAIN, type Fixture, makeFixture, PASSWORD, until } from '../proxy/fixture.ts'
import { sqlOverHttp, type SqlOverHttp, uriOf } from '../proxy/sql_over_http.ts'

/*
 * The memory that a client makes the proxy use over HTTP and WebSocket: little before login, a limited share
 * afterwards.
 */

const MEGABYTE = 2 ** 20

let fixture: Fixture
let proxy: Proxy
let hostile: string
let victim: string
let over: SqlOverHttp

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  const pid = await fixture.compute.start()
  ;[hostile, victim] = [await fixture.endpoint(pid), await fixture.endpoint(pid)]
  over = sqlOverHttp(fixture, proxy, victim)
})
after(async () => {
  over?.agent.destroy()
  await fixture?.close()
})

async function open(): Promise<TLSSocket> {
  const socket = tls({ host: '127.0.0.1', port: proxy.port, ca: readFileSync(fixture.caFile), servername: 'localhost' })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return socket
}

const head = (uri: string, length: number): string =>
  `POST /sql HTTP/1.1\r\nhost: x\r\nneon-connection-string: ${uri}\r\ncontent-length: ${length}\r\n\r\n`

/** The status line of the answer, or `closed`. */
async function status(socket: TLSSocket): Promise<string> {
  try {
    for await (const chunk of socket) return String(chunk).split('\r\n')[0] ?? ''
  } catch {
    // A reset: the server closed the connection with bytes in flight.
  }
  return 'closed'
}

test('a client without a valid password is refused before its body is read', async () => {
  const body = Buffer.alloc(MEGABYTE / 4, 0x20)
  const sockets = await Promise.all(Array.from({ length: 30 }, open))
  for (const [index, socket] of sockets.entries()) {
    socket.write(head(uriOf(hostile, `wrong${index % 5}`), 10 * MEGABYTE))
    socket.write(body)
  }
  const answers = sockets.map(status)
  assert.deepEqual(await over.rows('select 1 as n'), [{ n: 1 }])
  assert.match(await Promise.race(answers), /400|closed/)
  for (const socket of sockets) socket.destroy()
})

test('requests that stall after login at one endpoint do not block /sql at another', async () => {
  const body = Buffer.alloc(4.4 * MEGABYTE, 0x20)
  const sockets = await Promise.all(Array.from({ length: 62 }, open))
  const flushed = sockets.map(
    (socket) =>
      new Promise((resolve) => {
        socket.write(head(uriOf(hostile), 10 * MEGABYTE))
        socket.write(body, resolve)
        socket.once('close', resolve)
      }),
  )
  const answers = sockets.map(status)
  await Promise.race([Promise.all(flushed), Promise.race(answers)])
  const large = `/*${' '.repeat(9 * MEGABYTE)}*/ select 1 as n`
  for (let turn = 0; turn < 3; turn++) assert.deepEqual(await over.rows(large), [{ n: 1 }])
  for (const socket of sockets) socket.destroy()
})

/** Reads an answer of 9,900,000 bytes to its end, or to that of the connection. */
const isWhole = (socket: TLSSocket | undefined): Promise<boolean> =>
  new Promise((resolve) => {
    let bytes = 0
    socket?.on('data', (chunk: Buffer) => (bytes += chunk.length) > 9_900_000 && resolve(true))
    socket?.once('close', () => resolve(false))
  })

test('of answers that are not read the oldest are cut off', async () => {
  const body = JSON.stringify({ query: `select repeat('x', 9900000) as text`, params: [] })
  const sockets: TLSSocket[] = []
  // More than the share of one endpoint.
  for (let count = 0; count < 16; count++) {
    const socket = await open()
    socket.write(head(uriOf(hostile), body.length) + body)
    await once(socket, 'readable')
    sockets.push(socket)
  }
  assert.equal(await isWhole(sockets[0]), false)
  assert.equal(await isWhole(sockets.at(-1)), true)
  assert.deepEqual(await over.rows('select 1 as n'), [{ n: 1 }])
  for (const socket of sockets) socket.destroy()
})

test('a connection with many unanswered requests is closed', async () => {
  const socket = await open()
  const one = `${head(uriOf(hostile, 'wrong'), 2)}{}`
  socket.write(one.repeat(200))
  let answered = ''
  socket.on('data', (chunk: Buffer) => (answered += chunk))
  await new Promise((resolve) => void socket.once('close', resolve))
  assert.ok((answered.match(/HTTP\/1\.1 \d/g) ?? []).length <= 16)
})

const PARAMETERS = { user: 'alice', database: 'postgres' }
const startup = (): Buffer => encodeStartup({ version: PROTOCOL_3_0, parameters: new Map(Object.entries(PARAMETERS)) })
const password = encodeMessage(PASSWORD_MESSAGE, Buffer.from(`${PASSWORD}\0`))

async function webSocket(): Promise<WebSocket> {
  const socket = new WebSocket(`wss://127.0.0.1:${proxy.port}/v2`, {
    headers: { host: `${victim}.${DOMAIN}` },
    agent: over.agent,
  })
  socket.on('error', () => {})
  await once(socket, 'open')
  return socket
}

test('a large WebSocket message is refused before login and accepted after it', async () => {
  const strangers = await Promise.all(Array.from({ length: 12 }, webSocket))
  const sent = strangers.map((socket) => {
    socket.send(startup())
    return new Promise((resolve) => {
      socket.send(Buffer.alloc(20 * MEGABYTE), { fin: false }, (error) => resolve(error ? 'cut off' : 'taken'))
    })
  })
  assert.deepEqual(new Set(await Promise.all(sent)), new Set(['cut off']))

  const loggedIn = await webSocket()
  let received = ''
  loggedIn.on('message', (data: Buffer) => (received += data.toString('latin1')))
  loggedIn.send(Buffer.concat([startup(), password]))
  await until(async () => received.endsWith('I'))
  loggedIn.send(encodeMessage(0x51, Buffer.from(`/*${' '.repeat(20 * MEGABYTE)}*/ select 'here' || 'ami'\0`)))
  await until(async () => received.includes('hereami'))
  loggedIn.terminate()
})

test('incomplete WebSocket messages at one endpoint do not block /sql at another', async () => {
  const sockets: WebSocket[] = []
  const closed: Promise<unknown>[] = []
  for (let count = 0; count < 8; count++) {
    // Sequentially: a WebSocket without a login is closed after a time.
    const socket = await webSocket()
    sockets.push(socket)
    closed.push(once(socket, 'close'))
    let received = ''
    socket.on('message', (data: Buffer) => (received += data.toString('latin1')))
    socket.send(Buffer.concat([startup(), password]))
    await until(async () => received.endsWith('I'))
    socket.send(Buffer.alloc(40 * MEGABYTE), { fin: false })
  }
  // More than the share of one endpoint: some WebSockets are closed.
  await Promise.race(closed)
  assert.deepEqual(await over.rows('select 1 as n'), [{ n: 1 }])
  for (const socket of sockets) socket.terminate()
})
