import { deepEqual, throws } from 'node:assert/strict'
import { test } from 'node:test'
import type { Account } from '../catalog/account.ts'
import { requireNewSize, requireSize, SMALLEST } from './endpoint_size.ts'

const account = (plan: Account['plan']): Account => ({
  id: '',
  name: '',
  email: '',
  plan,
  is_default: true,
  organization_id: '',
  own_plan: null,
  projects_limit: null,
  branches_limit: null,
  quota: {},
  quota_exceeded: null,
  created_at: '',
})
const limits = (min?: number, max?: number) => ({
  ...(min !== undefined && { autoscaling_limit_min_cu: min }),
  ...(max !== undefined && { autoscaling_limit_max_cu: max }),
})
const paid = (min?: number, max?: number) => requireSize(account('paid'), limits(min, max), SMALLEST)

test('fixed sizes are the multiples of 0.25 from 0.25 to 7', () => {
  for (let size = 0.25; size <= 7; size += 0.25) deepEqual(paid(size, size), { min: size, max: size })
  for (const size of [0, 0.1, 0.3, 1.1, 7.25, 8, -1])
    throws(() => paid(size, size), { code: 'COMPUTE_SIZE_NOT_SUPPORTED' })
})

test('autoscaling limits lie between 1 and 7', () => {
  deepEqual(paid(1, 7), { min: 1, max: 7 })
  deepEqual(paid(1.25, 1.5), { min: 1.25, max: 1.5 })
  for (const min of [0.25, 0.5, 0.75]) throws(() => paid(min, 2), { code: 'AUTOSCALING_RANGE_NOT_SUPPORTED' })
  throws(() => paid(1, 8), { code: 'COMPUTE_SIZE_NOT_SUPPORTED' })
  throws(() => paid(2, 1), { code: 'COMPUTE_SIZE_INVERTED' })
})

test('a size names both limits or omits both', () => {
  deepEqual(paid(), SMALLEST)
  throws(() => paid(1), { code: 'COMPUTE_SIZE_INCOMPLETE' })
  throws(() => paid(undefined, 1), { code: 'COMPUTE_SIZE_INCOMPLETE' })
})

test('the free plan allows only the smallest size', () => {
  const free = (min?: number, max?: number) => requireSize(account('free'), limits(min, max), { min: 2, max: 2 })
  deepEqual(free(), SMALLEST)
  deepEqual(free(0.25, 0.25), SMALLEST)
  throws(() => free(0.5, 0.5), { code: 'PLAN_DOES_NOT_ALLOW' })
  throws(() => requireNewSize(account('free'), limits(1, 1), SMALLEST), { code: 'PLAN_DOES_NOT_ALLOW' })
  deepEqual(requireNewSize(account('free'), limits(2, 2), { min: 2, max: 2 }), { min: 2, max: 2 })
})

test('an endpoint keeps its mode when a change gives only one limit', () => {
  const change = (now: [number, number], min?: number, max?: number) =>
    requireNewSize(account('paid'), limits(min, max), { min: now[0], max: now[1] })
  deepEqual(change([1, 1], 2, 2), { min: 2, max: 2 })
  deepEqual(change([1, 2], undefined, 4), { min: 1, max: 4 })
  deepEqual(change([1, 2]), { min: 1, max: 2 })
  throws(() => change([1, 1], 1, 2), { code: 'ENDPOINT_MODE_CHANGE_NOT_SUPPORTED' })
  throws(() => change([1, 1], undefined, 2), { code: 'ENDPOINT_MODE_CHANGE_NOT_SUPPORTED' })
  throws(() => change([1, 2], 2, 2), { code: 'ENDPOINT_MODE_CHANGE_NOT_SUPPORTED' })
})
