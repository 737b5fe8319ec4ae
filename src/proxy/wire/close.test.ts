import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { closeGently } from './close.ts'

test('a client that has stopped reading keeps its socket for a minute, not for ever', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as { port: number }).port, '127.0.0.1')
  t.after(() => {
    client.destroy()
    server.close()
  })
  client.pause()
  const [socket] = (await once(server, 'connection')) as [Socket]
  t.mock.timers.enable({ apis: ['setTimeout'] })
  // More than the socket buffers of both sides hold.
  socket.write(Buffer.alloc(64 * 2 ** 20))
  closeGently(socket)
  t.mock.timers.tick(59_999)
  assert.equal(socket.destroyed, false)
  t.mock.timers.tick(1)
  assert.equal(socket.destroyed, true)
})
