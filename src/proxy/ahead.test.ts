import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { after, before, test } from 'node:test'
import type { ConnectTarget } from '../catalog/endpoint.ts'
import { openAhead } from './ahead.ts'

/* What a compute sees of clients that have not shown their password yet. */

let dir: string
let compute: Server
let target: ConnectTarget
const address = () => ({ host: dir, port: 5432 })

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'neap-ahead-'))
  compute = createServer().listen(join(dir, '.s.PGSQL.5432'))
  await once(compute, 'listening')
  target = {
    current_state: 'active',
    compute_host: dir,
    compute_port: 5432,
    compute_pid: 1,
    holding_operation_id: null,
  }
})
after(async () => {
  compute.close()
  await rm(dir, { recursive: true })
})

async function opened(client: PassThrough): Promise<[ReturnType<typeof openAhead>, Socket]> {
  const connection = once(compute, 'connection') as Promise<[Socket]>
  const ahead = openAhead(target, client)
  const [socket] = await connection
  return [ahead, socket]
}

test('a socket is taken once, for its own address, and outlives its client then', async () => {
  const client = new PassThrough()
  const [ahead, seen] = await opened(client)
  assert.equal(ahead?.take({ host: dir, port: 5433 }), undefined)
  const taken = ahead?.take(address())
  assert.equal(ahead?.take(address()), undefined)
  client.destroy()
  await once(client, 'close')
  taken?.write('startup')
  assert.equal(String((await once(seen, 'data'))[0]), 'startup')
  taken?.destroy()
  await once(seen, 'close')
})

test('a socket that nobody took is closed with its client, nothing having been sent', async () => {
  const client = new PassThrough()
  const [ahead, seen] = await opened(client)
  client.destroy()
  assert.deepEqual(await seen.toArray(), [])
  assert.equal(ahead?.take(address()), undefined)
})

test('nothing is opened to a compute that sleeps or is held, or for a client that is gone', async () => {
  const client = new PassThrough()
  assert.equal(openAhead({ ...target, current_state: 'idle' }, client), undefined)
  assert.equal(openAhead({ ...target, holding_operation_id: 'op' }, client), undefined)
  client.destroy()
  assert.equal(openAhead(target, client), undefined)
})

test('strangers can have sixteen opened at a time, and what is used does not count', async () => {
  const clients = Array.from({ length: 20 }, () => new PassThrough())
  const sockets: Socket[] = []
  compute.on('connection', (socket: Socket) => sockets.push(socket))
  const all = clients.map((client) => openAhead(target, client))
  assert.equal(all.filter(Boolean).length, 16)
  const used = all[0]?.take(address())
  const [one, seen] = await opened(new PassThrough())
  assert.ok(one)
  for (const client of clients) client.destroy()
  used?.destroy()
  one.take(address())?.destroy()
  await Promise.all([...sockets, seen].map((socket) => socket.toArray()))
})
