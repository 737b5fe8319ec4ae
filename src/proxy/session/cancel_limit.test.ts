import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCancelLimit } from './cancel_limit.ts'

test('a network that floods is not listened to until its time is over, and others are', () => {
  let now = 0
  const isWithinLimit = createCancelLimit(() => now)
  const heard = Array.from({ length: 500 }, (_, index) => isWithinLimit(`10.1.2.${index % 250}`))
  assert.equal(heard.filter(Boolean).length, 200)
  assert.ok(isWithinLimit('10.1.3.1') && isWithinLimit('2001:db8::1') && isWithinLimit(undefined))
  now += 10_000
  assert.ok(isWithinLimit('10.1.2.3'))
})
