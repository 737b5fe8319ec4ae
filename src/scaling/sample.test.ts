import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { CpuDemand } from '../compute/compute.ts'
import { sampleBetween, type UseReading } from './sample.ts'

const IDLE: UseReading = {
  atMs: 0,
  cpuMicroseconds: 0,
  periods: 0,
  throttledPeriods: 0,
  anonBytes: 0,
  cacheBytes: 0,
  refaults: 0,
  memoryStallMicroseconds: undefined,
  demand: undefined,
}

/** CPUs wanted between two readings that are a second apart. */
const wanted = (before: CpuDemand, after: CpuDemand): number =>
  sampleBetween({ ...IDLE, demand: before }, { ...IDLE, atMs: 1000, demand: after }).wanted

const of = (stride: number, ...microseconds: readonly (readonly [pid: number, microseconds: number])[]): CpuDemand => ({
  byPid: new Map(microseconds),
  stride,
})

test('processes that were read both times count', () => {
  equal(wanted(of(1, [4, 0], [5, 100]), of(1, [4, 1e6], [5, 5e5 + 100], [6, 9e6])), 1.5)
})

test('a part of many processes stands for all of them', () => {
  equal(wanted(of(2, [4, 0], [6, 0]), of(2, [4, 1e6], [6, 1e6])), 4)
})

test('a reading of all and one of a part are compared by the part', () => {
  const all = of(1, [4, 0], [5, 0], [6, 0], [7, 0])
  equal(wanted(all, of(2, [4, 1e6], [6, 1e6])), 4)
  equal(wanted(of(2, [4, 0], [6, 0]), of(1, [4, 1e6], [5, 1e6], [6, 1e6], [7, 1e6])), 4)
})
