import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Backoff, backoffMs, jittered } from './backoff.ts'

const delays = (backoff: Backoff, ...failures: number[]) => failures.map((each) => backoffMs(each, backoff))

test('delays double from the first to the maximum', () => {
  assert.deepEqual(
    delays({ firstMs: 250, maxMs: 5_000 }, 1, 2, 3, 4, 5, 6, 7),
    [250, 500, 1000, 2000, 4000, 5000, 5000],
  )
})

test('delays grow by the given factor', () => {
  assert.deepEqual(delays({ firstMs: 10, maxMs: 300, factor: 5 }, 1, 2, 3, 4), [10, 50, 250, 300])
})

test('the delay stays at its maximum after any number of failures', () => {
  assert.deepEqual(delays({ firstMs: 50, maxMs: 1_000 }, 5_000, Infinity), [1_000, 1_000])
})

test('jitter varies a delay in both directions and no further', () => {
  const drawn = Array.from({ length: 1_000 }, () => backoffMs(3, { firstMs: 100, maxMs: 10_000, jitter: 0.25 }))
  assert.ok(Math.min(...drawn) >= 300 && Math.max(...drawn) <= 500)
  assert.ok(drawn.some((ms) => ms < 350) && drawn.some((ms) => ms > 450))
})

test('jitter is limited to its maximum', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 100_000 }), fc.integer({ min: 0, max: 100 }), (delay, percent) => {
      const ms = jittered(delay, percent / 100)
      return ms >= delay * (1 - percent / 100) - 1e-6 && ms <= delay * (1 + percent / 100) + 1e-6
    }),
  )
})
