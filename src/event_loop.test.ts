import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createEventLoop, type EventLoopOptions } from './event_loop.ts'

const turn = () => new Promise(setImmediate)

/** A loop whose rounds the test ends one by one. */
function createStepped(options: Partial<EventLoopOptions> = {}) {
  const rounds: { isDue: boolean; end: (ms?: number) => void; fail: (error: Error) => void }[] = []
  const errors: unknown[] = []
  const waiting: (() => void)[] = []
  const loop = createEventLoop({
    look: (isDue) => {
      const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
      rounds.push({ isDue, end: resolve, fail: reject })
      waiting.splice(0).forEach((tell) => tell())
      return promise
    },
    onError: (error) => errors.push(error),
    ...options,
  })
  /** Resolves when so many rounds have begun. */
  const begun = async (count: number): Promise<void> => {
    while (rounds.length < count) await new Promise<void>((resolve) => waiting.push(resolve))
  }
  return { loop, rounds, errors, begun }
}

test('a loop begins with its first wake, in the same turn', async () => {
  const { loop, rounds } = createStepped()
  await turn()
  assert.equal(rounds.length, 0)
  loop.wake()
  assert.equal(rounds.length, 1)
  rounds[0]?.end()
  await loop.stop()
})

test('wakes during a round cause exactly one more', async () => {
  const { loop, rounds } = createStepped()
  loop.wake()
  for (let each = 0; each < 5; each++) loop.wake()
  await turn()
  assert.equal(rounds.length, 1)
  rounds[0]?.end(60_000)
  await turn()
  assert.equal(rounds.length, 2)
  rounds[1]?.end()
  await turn()
  assert.equal(rounds.length, 2)
  await loop.stop()
})

test('a round begins at the time that the last one returned, and a wake before is not due', async () => {
  const { loop, rounds, begun } = createStepped()
  loop.wake()
  rounds[0]?.end(60_000)
  await turn()
  loop.wake()
  rounds[1]?.end(1)
  await begun(3)
  rounds[2]?.end()
  await turn()
  loop.wake()
  rounds[3]?.end()
  assert.deepEqual(
    rounds.map(({ isDue }) => isDue),
    [true, false, true, false],
  )
  await loop.stop()
})

test('a failed round is told of and repeated after growing delays', async () => {
  const { loop, rounds, errors, begun } = createStepped({ retry: { firstMs: 1, maxMs: 60_000, factor: 60_000 } })
  loop.wake()
  rounds[0]?.fail(new Error('away'))
  await begun(2)
  rounds[1]?.fail(new Error('still away'))
  await sleep(20)
  assert.equal(rounds.length, 2)
  assert.deepEqual(errors.map(String), ['Error: away', 'Error: still away'])
  loop.wake()
  rounds[2]?.end()
  await turn()
  loop.wake()
  rounds[3]?.fail(new Error('away again'))
  await begun(5)
  rounds[4]?.end()
  await loop.stop()
})

test('a due round that failed is still due at the next wake', async () => {
  const { loop, rounds } = createStepped({ retry: { firstMs: 60_000, maxMs: 60_000 } })
  loop.wake()
  rounds[0]?.fail(new Error('away'))
  await turn()
  loop.wake()
  rounds[1]?.end()
  await turn()
  loop.wake()
  rounds[2]?.fail(new Error('away'))
  await turn()
  loop.wake()
  rounds[3]?.end()
  assert.deepEqual(
    rounds.map(({ isDue }) => isDue),
    [true, true, false, false],
  )
  await loop.stop()
})

test('a wake during a round that fails causes one more at once', async () => {
  const { loop, rounds } = createStepped({ retry: { firstMs: 60_000, maxMs: 60_000 } })
  loop.wake()
  loop.wake()
  rounds[0]?.fail(new Error('away'))
  await turn()
  assert.equal(rounds.length, 2)
  rounds[1]?.end()
  await loop.stop()
})

test('a round that throws before its first await does not end the loop', async () => {
  let rounds = 0
  const errors: unknown[] = []
  const loop = createEventLoop({
    look: () => {
      rounds++
      throw new Error('at once')
    },
    onError: (error) => errors.push(error),
    retry: { firstMs: 60_000, maxMs: 60_000 },
  })
  loop.wake()
  await turn()
  loop.wake()
  await loop.stop()
  assert.deepEqual([rounds, errors.length], [2, 2])
})

test('stop waits for the round, and no round follows', async () => {
  const { loop, rounds } = createStepped()
  loop.wake()
  loop.wake()
  let stopped = false
  const stopping = loop.stop().then(() => (stopped = true))
  await turn()
  assert.equal(stopped, false)
  rounds[0]?.end(1)
  await stopping
  loop.wake()
  await sleep(20)
  assert.equal(rounds.length, 1)
})

test('a loop that was never woken stops, and does not start after it', async () => {
  const { loop, rounds } = createStepped()
  await loop.stop()
  loop.wake()
  await turn()
  assert.equal(rounds.length, 0)
})
