import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as tcp, Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { connect as tls } from 'node:tls'
import { connect, type Fixture, makeFixture } from '../proxy/fixture.ts'

/* The cost of connections before TLS and login: slots and handshakes. */

const NO_LIMITS = { perEndpoint: 0, perAddress: 0, loggingIn: 0, loggingInPerAddress: 0, newPerSecond: 0 }

let fixture: Fixture
let endpoint: string

before(async () => {
  fixture = await makeFixture()
  endpoint = await fixture.endpoint(await fixture.compute.start())
})
after(() => fixture.close())

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/** Resolves with the name of the first of these events. */
const first = (socket: Socket, ...events: string[]): Promise<string> =>
  new Promise((resolve) => {
    for (const event of events) socket.once(event, () => resolve(event))
  })

async function askForTls(port: number, localAddress: string): Promise<Socket> {
  const socket = tcp({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => {})
  socket.write(SSL_REQUEST)
  await first(socket, 'data', 'close')
  return socket
}

test('SSLRequests of one address leave slots for other addresses', async () => {
  const proxy = await fixture.proxy({ limits: { ...NO_LIMITS, loggingIn: 20, loggingInPerAddress: 10 } })
  const flood = await Promise.all(Array.from({ length: 60 }, () => askForTls(proxy.port, '127.0.0.9')))
  const client = await connect(proxy.port, endpoint)
  await client.end()
  for (const socket of flood) socket.destroy()
})

test('failed logins of one address do not use up the new connections of an endpoint', async () => {
  const proxy = await fixture.proxy({ limits: { ...NO_LIMITS, newPerSecond: 2 } })
  const refusals = await Promise.all(
    Array.from({ length: 40 }, () =>
      connectFrom('127.0.0.9', proxy.port).then(
        () => 'in',
        (error: unknown) => String(error),
      ),
    ),
  )
  assert.ok(refusals.every((refusal) => refusal !== 'in'))
  const client = await connect(proxy.port, endpoint)
  await client.end()
})

function connectFrom(localAddress: string, port: number): Promise<unknown> {
  const stream = (): Socket => {
    const socket = new Socket()
    const plain = socket.connect.bind(socket)
    socket.connect = () => plain({ port, host: '127.0.0.1', localAddress })
    return socket
  }
  return connect(port, endpoint, { password: 'wrong', stream })
}

test('a TLS 1.2 client cannot renegotiate', async () => {
  const proxy = await fixture.proxy()
  const socket = tls({
    socket: await askForTls(proxy.port, '127.0.0.1'),
    maxVersion: 'TLSv1.2',
    rejectUnauthorized: false,
  })
  await once(socket, 'secureConnect')
  socket.on('error', () => {})
  const ended = first(socket.resume(), 'error', 'end', 'close')
  const renegotiated = new Promise((resolve) => void socket.renegotiate({}, (error) => resolve(error ?? 'done')))
  assert.notEqual(await Promise.race([renegotiated, ended]), 'done')
  socket.destroy()
})
