import assert from 'node:assert/strict'
import { createHmac, pbkdf2Sync } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { after, before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { ConnectTarget } from '../../catalog/compute.ts'
import { scramVerifier } from '../../postgres/scram_verifier.ts'
import { authenticate } from '../auth/authentication.ts'
import { parseVerifier, type Verifier } from '../auth/verifier.ts'
import { ProxyError } from '../wire/errors.ts'
import { READY_FOR_QUERY } from '../wire/message_types.ts'
import { encodeError, encodeMessage } from '../wire/messages.ts'
import { readPacket } from '../wire/packet.ts'
import { encodeStartup, PROTOCOL_3_0 } from '../wire/startup.ts'
import { openSpeculatively } from './speculative_open.ts'

/* Speculative sessions at a compute, opened before their clients have proved their passwords. */

let dir: string
let compute: Server
let target: ConnectTarget
const address = () => ({ host: dir, port: 5432, store: 'br-a' })

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'neap-speculative-'))
  compute = createServer().listen(join(dir, '.s.PGSQL.5432'))
  await once(compute, 'listening')
  target = {
    current_state: 'active',
    compute_address: dir,
    compute_port: 5432,
    compute_id: 'one',
    compute_store_id: 'br-a',
    holding_operation_id: null,
  }
})
after(async () => {
  compute.close()
  await rm(dir, { recursive: true })
})

const STARTUP = encodeStartup({ version: PROTOCOL_3_0, parameters: new Map([['user', 'ann']]) })

async function opened(client: PassThrough): Promise<[ReturnType<typeof openSpeculatively>, Socket]> {
  const connection = once(compute, 'connection') as Promise<[Socket]>
  const speculative = openSpeculatively(target, STARTUP, client)
  const [socket] = await connection
  await once(socket, 'readable')
  return [speculative, socket]
}

test('a session is taken once, at its own address, and outlives its client then', async () => {
  const client = new PassThrough()
  const [speculative, seen] = await opened(client)
  assert.equal(speculative?.take({ ...address(), port: 5433 }), undefined)
  const taken = speculative?.take(address())
  assert.equal(speculative?.take(address()), undefined)
  client.destroy()
  await once(client, 'close')
  taken?.drop()
  assert.deepEqual(await seen.toArray(), [STARTUP])
})

test('a session that the compute refuses before the proof is closed', async () => {
  const client = new PassThrough()
  const [speculative, seen] = await opened(client)
  seen.resume()
  seen.write(encodeError(new ProxyError('malformed')))
  await once(seen, 'end')
  assert.equal(speculative?.take(address()), undefined)
  client.destroy()
})

/** A verifier and its keys. */
async function known() {
  const salt = Buffer.from('salt')
  const verifier = parseVerifier(await scramVerifier('secret', { salt })) ?? assert.fail('no verifier')
  const salted = pbkdf2Sync('secret', salt, verifier.iterations, 32, 'sha256')
  const clientKey = createHmac('sha256', salted).update('Client Key').digest()
  return { verifier, keys: { clientKey, serverKey: verifier.serverKey } }
}

/** Runs the server side of a login. */
async function admit(seen: Socket, verifier: Verifier): Promise<boolean> {
  const client = {
    stream: seen,
    address: undefined,
    serverName: undefined,
    binding: undefined,
    authentication: 'scram',
  } as const
  return authenticate(client, 'ann', Promise.resolve(verifier), async (check) => check()).then(
    () => true,
    () => false,
  )
}

const READY = encodeMessage(READY_FOR_QUERY, Buffer.from('I'))

test('the compute gets the proof once the client is authenticated, unless the endpoint is paused', async () => {
  const { verifier, keys } = await known()
  for (const paused of [false, true]) {
    const [speculative, seen] = await opened(new PassThrough())
    await readPacket(seen, 1_000)
    const entered = admit(seen, verifier)
    // Wait for both server messages: the mechanisms and the challenge.
    while (seen.bytesWritten < 100) await setImmediate()
    const answer = speculative?.take(address())?.logIn(keys, () => paused, AbortSignal.timeout(10_000))
    assert.equal(await entered, !paused)
    if (!paused) seen.end(READY)
    assert.equal((await answer)?.is, paused ? 'paused' : 'connected')
    seen.destroy()
  }
})

test('a session that its compute ends right when it is ready counts as a failed connect', async () => {
  const { verifier, keys } = await known()
  const [speculative, seen] = await opened(new PassThrough())
  await readPacket(seen, 1_000)
  const answer = speculative?.take(address())?.logIn(keys, () => false, AbortSignal.timeout(10_000))
  assert.equal(await admit(seen, verifier), true)
  seen.end(Buffer.concat([READY, encodeError(new ProxyError('stopping'))]))
  assert.equal((await answer)?.is, 'unavailable')
  seen.destroy()
})

test('a session that nobody took is closed with its client', async () => {
  const client = new PassThrough()
  const [speculative, seen] = await opened(client)
  client.destroy()
  assert.deepEqual(await seen.toArray(), [STARTUP])
  assert.equal(speculative?.take(address()), undefined)
})

test('a session that the compute has closed is not taken, and counts no more', async () => {
  for (let turn = 0; turn < 20; turn++) {
    const client = new PassThrough()
    const [speculative, seen] = await opened(client)
    assert.ok(speculative)
    seen.destroy()
    while (client.listenerCount('close') > 0) await setImmediate()
    assert.equal(speculative.take(address()), undefined)
  }
})

test('none is opened at a compute that sleeps or is held, or for a client that is gone', () => {
  const client = new PassThrough()
  assert.equal(openSpeculatively({ ...target, current_state: 'idle' }, STARTUP, client), undefined)
  assert.equal(openSpeculatively({ ...target, holding_operation_id: 'op' }, STARTUP, client), undefined)
  client.destroy()
  assert.equal(openSpeculatively(target, STARTUP, client), undefined)
})

test('strangers can have four opened at a time at one compute, and what is used does not count', async () => {
  const clients = Array.from({ length: 20 }, () => new PassThrough())
  const sockets: Socket[] = []
  compute.on('connection', (socket: Socket) => sockets.push(socket))
  const all = clients.map((client) => openSpeculatively(target, STARTUP, client))
  assert.equal(all.filter(Boolean).length, 4)
  const used = all[0]?.take(address())
  const [one, seen] = await opened(new PassThrough())
  assert.ok(one)
  for (const client of clients) client.destroy()
  used?.drop()
  one.take(address())?.drop()
  await Promise.all([...sockets, seen].map((socket) => socket.toArray()))
})
