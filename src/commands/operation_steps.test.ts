import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { stepsOf } from './operation_steps.ts'

const [CREATED, FIRST, SECOND] = ['2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z', '2026-01-01T00:00:03Z']

test('steps lie between the ends of those before, and those of the action follow', () => {
  const operation = { action: 'create_branch', status: 'running', started_at: CREATED, finished_at: null } as const
  const [name, next] = ['begun', 'then']
  const steps = stepsOf(operation, {
    step: next,
    steps: [
      { step: name, at: FIRST, error: 'no room' },
      { step: name, at: SECOND },
    ],
  })
  deepEqual(steps, [
    { name, status: 'failed', began_at: CREATED, ended_at: FIRST, error: 'no room' },
    { name, status: 'done', began_at: FIRST, ended_at: SECOND },
    { name: next, status: 'current', began_at: SECOND },
  ])
})

test('an operation that has not begun has only steps to come, one that has ended has none', () => {
  const waiting = { action: 'start_compute', status: 'scheduling', started_at: null, finished_at: null } as const
  deepEqual(stepsOf(waiting, { step: 'compute_answers', steps: [] }), [{ name: 'compute_answers', status: 'to_come' }])
  const ended = { action: 'start_compute', status: 'finished', started_at: CREATED, finished_at: FIRST } as const
  deepEqual(stepsOf(ended, { step: 'compute_answers', steps: [{ step: 'compute_answers', at: FIRST }] }), [
    { name: 'compute_answers', status: 'done', began_at: CREATED, ended_at: FIRST },
  ])
})
