import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import Fastify, { type FastifyReply } from 'fastify'
import { chargeRequests, createKeyUse } from './key_use.ts'
import type { Caller } from './route.ts'

const caller = { credential: { kind: 'api_key', id: 1 }, account: { id: 'account' } } as unknown as Caller

test('concurrent requests of a key begin only within its remaining CPU time', (t) => {
  const use = createKeyUse({ requestsPerKey: 100, streamsPerKey: 100, cpuPerKey: 25 }, () => 0)
  t.after(() => use.stop())
  const enter = (): EventEmitter => {
    const raw = new EventEmitter()
    use.enter(caller, 'requests', { raw, header: () => {} } as unknown as FastifyReply)
    return raw
  }
  // All but 11 ms of the 1 s burst.
  use.charge(caller, 989)
  const begun = [enter(), enter(), enter()]
  assert.throws(enter, /more CPU time than it may/)
  // A request that ends returns its reservation.
  begun[0]?.emit('close')
  enter()
  assert.throws(enter, /more CPU time than it may/)
})

test('a request is not charged for the time in which the process was frozen', async (t) => {
  let charged = 0
  const app = Fastify()
  t.after(() => app.close())
  chargeRequests(app, {
    enter: () => {},
    charge: (_caller, ms) => (charged += ms),
    stop: () => {},
  })
  // The thread sleeps within the measured section.
  app.addHook('preValidation', (_request, _reply, done) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
    done()
  })
  app.get('/', async () => ({}))
  await app.inject('/')
  assert.ok(charged > 0 && charged < 200, `${charged} ms`)
})
