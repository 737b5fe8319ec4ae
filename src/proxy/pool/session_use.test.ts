import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Borrower } from './borrower.ts'
import { createSessionUse, endReset, isClean, isFor, lendTo, markStale, resetIdle } from './session_use.ts'

/* When a session must be reset before a client may have it. */

const [one, other] = [{} as Borrower, {} as Borrower]

test('a clean session is for any client, a used one for its client only', () => {
  const use = createSessionUse()
  assert.ok(isClean(use) && isFor(use, one) && isFor(use, other))
  assert.equal(lendTo(use, one), false)
  assert.deepEqual([use.phase, isClean(use), isFor(use, one), isFor(use, other)], ['used', false, true, false])
  assert.equal(lendTo(use, one), false)
})

test('another client gets the session behind a reset, and has used it after that', () => {
  const use = createSessionUse()
  lendTo(use, one)
  assert.equal(lendTo(use, other), true)
  assert.equal(use.phase, 'resetting')
  endReset(use)
  assert.deepEqual([use.phase, isFor(use, one), isFor(use, other)], ['used', false, true])
})

test('a session that is reset while idle is clean', () => {
  const use = createSessionUse()
  lendTo(use, one)
  resetIdle(use)
  endReset(use)
  assert.deepEqual([use.phase, isClean(use), isFor(use, other)], ['clean', true, true])
})

test('a stale session is reset for its own client too', () => {
  const use = createSessionUse()
  lendTo(use, one)
  markStale(use)
  assert.deepEqual([isFor(use, one), isClean(use)], [false, false])
  assert.equal(lendTo(use, one), true)
})

test('a closed session stays closed', () => {
  const use = createSessionUse()
  use.phase = 'closed'
  endReset(use)
  markStale(use)
  assert.equal(use.phase, 'closed')
})
