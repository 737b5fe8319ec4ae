import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { withSignal, withTimeout } from './race.ts'

const never = new Promise<never>(() => {})
/** The timers that keep this process alive. */
const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

test('a promise that settles in time settles the race and leaves no timer', async () => {
  const before = timers()
  assert.equal(await withTimeout(Promise.resolve('here'), 60_000, 'late'), 'here')
  await assert.rejects(withTimeout(Promise.reject(new Error('no')), 60_000, 'late'), { message: 'no' })
  await new Promise(setImmediate)
  assert.equal(timers(), before)
})

test('a promise that is late is replaced, and its later rejection is handled', async () => {
  const { promise, reject } = Promise.withResolvers<string>()
  assert.equal(await withTimeout(promise, 5, undefined), undefined)
  reject(new Error('after all'))
  await new Promise(setImmediate)
})

test('a promise that settles before the signal aborts settles the race and leaves no listener', async () => {
  const { signal } = new AbortController()
  assert.equal(await withSignal(Promise.resolve('here'), signal), 'here')
  await assert.rejects(withSignal(Promise.reject(new Error('no')), signal), { message: 'no' })
  await new Promise(setImmediate)
  assert.deepEqual(getEventListeners(signal, 'abort'), [])
})

test('an abort rejects with its reason', async () => {
  const controller = new AbortController()
  const waiting = withSignal(never, controller.signal)
  controller.abort(new Error('gone'))
  await assert.rejects(waiting, { message: 'gone' })
  await assert.rejects(withSignal(never, controller.signal), { message: 'gone' })
})

test('a signal that has aborted wins over a promise that has settled, and a later rejection is handled', async () => {
  const signal = AbortSignal.abort(new Error('gone'))
  await assert.rejects(withSignal(Promise.resolve('here'), signal), { message: 'gone' })
  await assert.rejects(withSignal(Promise.reject(new Error('no')), signal), { message: 'gone' })
  await new Promise(setImmediate)
})

test('a given reason replaces the reason of an aborted signal', async () => {
  const controller = new AbortController()
  let reason = new Error('early')
  const waiting = withSignal(never, controller.signal, () => reason)
  reason = new Error('away')
  controller.abort(new Error('gone'))
  await assert.rejects(waiting, { message: 'away' })
})
