import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'
import { awaited } from './prefer.ts'

test('a committed change is answered when waiting for its operations fails, and the failure is logged', async () => {
  const answer = { operations: [{ id: '0199d2c0-0000-7000-8000-000000000000' }] }
  const failures = [
    Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' }),
    new AppError('UNAVAILABLE'),
  ]
  for (const failure of failures) {
    const logged: unknown[] = []
    const context = {
      catalog: { listen: async () => () => {}, rows: () => Promise.reject(failure) },
      log: { warn: ({ err }: { err: unknown }) => logged.push(err) },
    } as unknown as Context
    assert.equal(await awaited(context, answer, 60, new AbortController().signal), answer)
    assert.deepEqual(logged, [failure])
  }
})
