import assert from 'node:assert/strict'
import { EventEmitter, getEventListeners } from 'node:events'
import { test } from 'node:test'
import { awaitCondition } from './await_condition.ts'

/** A number that tells of its changes. */
function createCounter() {
  const events = new EventEmitter()
  let value = 0
  return {
    reads: 0,
    add() {
      value++
      events.emit('change')
    },
    addSilently: () => void value++,
    subscribe(wake: () => void) {
      events.on('change', wake)
      return () => void events.off('change', wake)
    },
    read() {
      this.reads++
      return value
    },
    subscribers: () => events.listenerCount('change'),
  }
}

const never = new AbortController().signal
const turn = () => new Promise(setImmediate)

test('a condition that is met already needs no event', async () => {
  const counter = createCounter()
  const state = await awaitCondition({
    subscribe: (wake) => counter.subscribe(wake),
    read: () => counter.read(),
    isMet: () => true,
    until: never,
  })
  assert.deepEqual(
    { state, reads: counter.reads, subscribers: counter.subscribers() },
    { state: 0, reads: 1, subscribers: 0 },
  )
})

test('each event causes one reading, until the condition is met', async () => {
  const counter = createCounter()
  const waiting = awaitCondition({
    subscribe: async (wake) => counter.subscribe(wake),
    read: async () => counter.read(),
    isMet: (value) => value === 3,
    until: never,
  })
  for (let each = 0; each < 3; each++) {
    await turn()
    counter.add()
  }
  assert.equal(await waiting, 3)
  assert.equal(counter.reads, 4)
  assert.equal(counter.subscribers(), 0)
})

test('an event during a reading is not missed', async () => {
  const counter = createCounter()
  const state = await awaitCondition({
    subscribe: (wake) => counter.subscribe(wake),
    read: async () => {
      const value = counter.read()
      if (value === 0) counter.add()
      return value
    },
    isMet: (value) => value === 1,
    until: never,
  })
  assert.equal(state, 1)
})

test('an event between subscription and reading is not missed', async () => {
  const counter = createCounter()
  const state = await awaitCondition({
    subscribe: async (wake) => {
      const unsubscribe = counter.subscribe(wake)
      counter.add()
      return unsubscribe
    },
    read: async () => counter.read(),
    isMet: (value) => value === 1,
    until: never,
  })
  assert.equal(state, 1)
})

test('an abort ends the wait with the state at that time', async () => {
  const counter = createCounter()
  const over = new AbortController()
  const waiting = awaitCondition({
    subscribe: (wake) => counter.subscribe(wake),
    read: async () => counter.read(),
    isMet: () => false,
    until: over.signal,
  })
  await turn()
  counter.addSilently()
  over.abort()
  assert.equal(await waiting, 1)
  assert.equal(counter.subscribers(), 0)
  assert.deepEqual(getEventListeners(over.signal, 'abort'), [])
})

test('a signal that aborted before leaves one reading', async () => {
  const counter = createCounter()
  const state = await awaitCondition({
    subscribe: (wake) => counter.subscribe(wake),
    read: async () => counter.read(),
    isMet: () => false,
    until: AbortSignal.abort(),
  })
  assert.deepEqual({ state, reads: counter.reads }, { state: 0, reads: 1 })
})

test('a periodic reading makes up for a lost event', async () => {
  const counter = createCounter()
  const waiting = awaitCondition({
    subscribe: (wake) => counter.subscribe(wake),
    read: async () => counter.read(),
    isMet: (value) => value === 1,
    until: never,
    rereadMs: 5,
  })
  await turn()
  counter.addSilently()
  assert.equal(await waiting, 1)
})

test('an error of a reading ends the wait and the subscription', async () => {
  const counter = createCounter()
  const over = new AbortController()
  const waiting = awaitCondition({
    subscribe: (wake) => counter.subscribe(wake),
    read: () => Promise.reject(new Error('away')),
    isMet: () => false,
    until: over.signal,
  })
  await assert.rejects(waiting, { message: 'away' })
  assert.equal(counter.subscribers(), 0)
  assert.deepEqual(getEventListeners(over.signal, 'abort'), [])
})
