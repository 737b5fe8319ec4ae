import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect as tcp, createServer, type Socket } from 'node:net'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { connect as tls, createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { randomFrom } from '../../../test/random.ts'
import { ensureCertificates } from '../../tls/certificates.ts'
import { createTrafficTable } from '../suspend/traffic.ts'
import { readShared, writeShared } from './shared_read_buffer.ts'
import { spliceSession } from './splice.ts'

let dir: string
let credentials: { cert: Buffer; key: Buffer }

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'neap-shared-'))
  const { certFile, keyFile } = await ensureCertificates(dir, { region: 'local', domain: 'localhost' })
  credentials = { cert: await readFile(certFile), key: await readFile(keyFile) }
})
after(() => rm(dir, { recursive: true }))

/** Both ends of a connection, over TLS or plain. */
async function pair(secure: boolean): Promise<[Socket, Socket]> {
  const options = { allowHalfOpen: true }
  const server = secure ? createTlsServer({ ...options, ...credentials }) : createServer(options)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const at = { ...options, port: (server.address() as AddressInfo).port, host: '127.0.0.1' }
  const near = secure ? tls({ ...at, rejectUnauthorized: false }) : tcp(at)
  const [far] = (await once(server, secure ? 'secureConnection' : 'connection')) as [Socket | TLSSocket]
  server.close()
  return [near, far]
}

/** Reads until the end with pauses, so that the writer has to wait. */
async function readSlowly(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    if (chunks.length % 16 === 0) await new Promise(setImmediate)
  }
  return Buffer.concat(chunks)
}

/** Bytes without repeating sections. */
const bytes = (words: number, seed: number): Buffer =>
  Buffer.from(Uint32Array.from({ length: words }, (_, at) => at * 2_654_435_761 + seed * 1_000_003).buffer)

/** Small writes in separate turns, so that they arrive as separate chunks. */
async function writeInPieces(to: Socket, all: Buffer): Promise<void> {
  for (let at = 0; at < all.length; at += 9_001) {
    to.write(all.subarray(at, at + 9_001))
    await new Promise(setImmediate)
  }
}

test('sessions side by side, full in both directions, never see bytes of each other', async () => {
  const table = createTrafficTable()
  await Promise.all(
    Array.from({ length: 3 }, async (_, number) => {
      const [client, clientSide] = await pair(number > 0)
      const [computeSide, compute] = await pair(false)
      spliceSession(clientSide, table.enter('ep')).attach(computeSide, Buffer.alloc(0), 'one')
      const [asked, answered] = [bytes(3_000_000, number), bytes(3_250_000, number + 0.5)]
      client.write(asked)
      let isWritten = false
      const written = writeInPieces(compute, answered).then(() => (isWritten = true))
      // Both ends are unread: unless the kernel's buffers are huge, there is more data than they hold, in both
      // directions.
      const full = (): boolean => clientSide.isPaused() && computeSide.isPaused()
      const taken = (): boolean => isWritten && client.writableLength + compute.writableLength === 0
      while (!full() && !taken()) await new Promise(setImmediate)
      const [received, back] = [readSlowly(compute), readSlowly(client)]
      await written
      client.end()
      assert.ok((await received).equals(asked), `what client ${number} sent`)
      compute.end()
      assert.ok((await back).equals(answered), `what client ${number} was sent`)
    }),
  )
})

test('what cannot be sent at once is sent as it was, whatever becomes of the buffer', async () => {
  for (const secure of [true, false]) {
    const [near, far] = await pair(secure)
    const [otherNear, otherFar] = await pair(false)
    const shared = Buffer.alloc(60_000)
    const expected: Buffer[] = []
    const lend = (number: number): void => {
      shared.fill(number)
      expected.push(Buffer.from(shared))
      writeShared(far, shared)
      writeShared(otherFar, shared.fill(0))
    }
    let number = 1
    // Until the kernel takes no more, and three chunks beyond.
    while (far.writableLength < 3 * shared.length) lend(number++ % 256)
    far.end()
    otherFar.destroy()
    assert.ok(Buffer.concat((await near.toArray()) as Buffer[]).equals(Buffer.concat(expected)))
    near.end()
    otherNear.destroy()
    await once(far, 'close')
  }
})

test('large and small pieces to several at once, ended or cut off in the midst, stay whole and in order', async () => {
  const random = randomFrom(1).next
  const pairs = await Promise.all([0, 1, 2, 3, 4].map((number) => pair(number % 2 === 1)))
  const [cut] = pairs
  const expected: Buffer[][] = pairs.map(() => [])
  const received = pairs.slice(1).map(([near]) => readSlowly(near))
  const shared = Buffer.alloc(65_536)
  for (let turn = 0; turn < 2_000; turn++) {
    const number = Math.floor(random() * pairs.length)
    const length = 1 + Math.floor(random() * (random() < 0.5 ? 100 : 20_000))
    const piece = shared.subarray(0, length).fill(turn % 256)
    expected[number]?.push(Buffer.from(piece))
    const to = pairs[number]?.[1]
    if (to && !to.destroyed) writeShared(to, piece)
    shared.fill(0)
    if (turn === 1_000) cut?.[1].destroy()
    if (random() < 0.2) await new Promise(setImmediate)
  }
  for (const [, far] of pairs) far.end()
  for (const [number, all] of (await Promise.all(received)).entries())
    assert.ok(all.equals(Buffer.concat(expected[number + 1] ?? [])), `socket ${number + 1}`)
  for (const [near] of pairs) near.destroy()
})

test('what was read before comes first, and a pause holds', async () => {
  const [near, far] = await pair(false)
  far.write('before ')
  await once(near, 'readable')
  const read: string[] = []
  readShared(near, (chunk) => {
    read.push(String(chunk))
    near.emit('read')
  })
  assert.deepEqual(read, ['before '])
  assert.equal(near.isPaused(), true)
  far.write('after')
  near.resume()
  await once(near, 'read')
  assert.equal(read.join(''), 'before after')
  near.pause()
  far.end('last')
  const ended = once(near, 'end')
  near.resume()
  await ended
  assert.equal(read.join(''), 'before afterlast')
  near.destroy()
  await once(far, 'close')
})
