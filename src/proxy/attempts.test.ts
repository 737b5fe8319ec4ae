import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAttempts } from './attempts.ts'

test('after many wrong passwords each further attempt waits, a few at a time, until they are forgotten', async (t) => {
  let time = 0
  const attempts = createAttempts(() => time, 20)
  t.after(() => attempts.stop())
  const who = ['10.0.0.1', 'ep-a', 'alice'] as const
  const slowed = async (...whose: readonly [string, string, string]): Promise<boolean> => {
    let waits = true
    const admitted = attempts.admit(...whose).then(() => (waits = false))
    await new Promise(setImmediate)
    const result = waits
    await admitted
    return result
  }
  for (let count = 0; count < 50; count++) attempts.failed(...who)
  assert.equal(await slowed(...who), false)
  attempts.failed(...who)
  assert.equal(await slowed(...who), true)
  const others: [string, string, string][] = [
    ['10.0.0.2', 'ep-a', 'alice'],
    ['10.0.0.1', 'ep-b', 'alice'],
    ['10.0.0.1', 'ep-a', 'bob'],
  ]
  for (const other of others) assert.equal(await slowed(...other), false)
  const crowd = await Promise.allSettled(Array.from({ length: 30 }, () => attempts.admit(...who)))
  assert.equal(crowd.filter(({ status }) => status === 'rejected').length, 10)
  time += 1_000
  assert.equal(await slowed(...who), false)
})
