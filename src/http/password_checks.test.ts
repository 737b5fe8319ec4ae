import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPasswordChecks } from './password_checks.ts'

test('passwords that one network has checked or hashed keep no other network waiting for long', async () => {
  const checks = createPasswordChecks()
  const flood = Promise.allSettled(
    Array.from({ length: 100 }, () => checks.hash('192.0.2.1', 'a long enough password')),
  )
  assert.equal(await checks.matches({ address: '198.51.100.1', name: 'ada' }, 'a guess'), false)
  const outcomes = await flood
  assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 10)
  assert.match(await checks.hash('192.0.2.1', 'a long enough password'), /^\$argon2id\$/)
})
