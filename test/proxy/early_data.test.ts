import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as tcp, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { after, before, test } from 'node:test'
import { connect as tls } from 'node:tls'
import { encodeStartup, GSSENC_REQUEST, PROTOCOL_3_0, SSL_REQUEST } from '../../src/proxy/wire/startup.ts'
import { int32 } from '../../src/proxy/wire/messages.ts'
import { makeScene, type Scene } from './protocol.ts'

/* Bytes that a client sends behind its SSLRequest or GSSENCRequest, before the answer to that. */

let scene: Scene
before(async () => {
  scene = await makeScene()
})
after(() => scene.fixture.close())

const request = (code: number): Buffer => Buffer.concat([int32(8), int32(code)])
const startup = (): Buffer =>
  encodeStartup({ version: PROTOCOL_3_0, parameters: new Map(Object.entries(scene.way('direct').parameters)) })

async function read(socket: Socket, count: number): Promise<string> {
  for (;;) {
    const bytes = socket.read(count) as Buffer | null
    if (bytes) return bytes.toString()
    await once(socket, 'readable')
  }
}

/** Starts TLS, sends bytes, and returns the answer: an error, or the request for a password. */
async function withinTls(plain: Duplex, send: Buffer): Promise<string> {
  const socket = tls({ socket: plain, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  if (send.length > 0) socket.write(send)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return answer.toString('latin1')
}

test('plaintext right after an SSLRequest is dropped, and refused within TLS', async () => {
  const socket = tcp(scene.proxy.port, '127.0.0.1')
  socket.write(Buffer.concat([request(SSL_REQUEST), startup()]))
  assert.equal(await read(socket, 1), 'S')
  assert.match(await withinTls(socket, Buffer.alloc(0)), /^E.*C08P01\0Mreceived unencrypted data after SSL request/s)
})

test('a ClientHello sent right after the SSLRequest is processed', async () => {
  const socket = tcp(scene.proxy.port, '127.0.0.1')
  let isFirst = true
  const together = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      socket.write(isFirst ? Buffer.concat([request(SSL_REQUEST), chunk]) : chunk, done)
      isFirst = false
    },
  })
  let answered = false
  socket.on('data', (chunk: Buffer) => {
    if (!answered) assert.equal(chunk.toString('latin1', 0, 1), 'S')
    together.push(answered ? chunk : chunk.subarray(1))
    answered = true
  })
  assert.match(await withinTls(together, startup()), /^R.*SCRAM-SHA-256/s)
  socket.destroy()
})

test('a GSSENCRequest is refused, and the next packet is processed normally', async () => {
  const socket = tcp(scene.proxy.port, '127.0.0.1')
  socket.write(Buffer.concat([request(GSSENC_REQUEST), request(SSL_REQUEST)]))
  assert.equal(await read(socket, 2), 'NS')
  assert.match(await withinTls(socket, startup()), /^R.*SCRAM-SHA-256/s)
  const plain = tcp(scene.proxy.port, '127.0.0.1')
  plain.write(Buffer.concat([request(GSSENC_REQUEST), startup()]))
  assert.match(Buffer.concat((await plain.toArray()) as Buffer[]).toString(), /^NE.*C28000\0Mconnection is insecure/s)
})
