import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { type CpuUse, heavyUsers } from './shares.ts'

const heavy = (cpus: number, ...uses: readonly (readonly [id: string, cu: number, used: number])[]): string[] =>
  [
    ...heavyUsers(
      uses.map(([id, cu, used]): CpuUse => ({ id, cu, used })),
      cpus,
    ),
  ].toSorted()

test('while CPUs are free no compute is heavy', () => {
  deepEqual(heavy(4, ['a', 1, 1], ['b', 1, 0.5]), [])
  deepEqual(heavy(2), [])
})

test('a compute that uses little of its size comes before one that uses much', () => {
  deepEqual(heavy(2, ['light', 1, 0.1], ['busy', 7, 1.9]), ['busy'])
})

test('computes that all use much of their sizes share by size', () => {
  deepEqual(heavy(2, ['small', 1, 0.3], ['large', 7, 1.7]), ['large', 'small'])
  deepEqual(heavy(2, ['a', 1, 0.6], ['b', 1, 0.7], ['c', 1, 0.7], ['idle', 1, 0]), ['a', 'b', 'c'])
})
