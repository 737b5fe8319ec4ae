import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { cpusUsed, isWorking, type KernelReading, type KnownCompute, sampleOf } from './sampling.ts'

const reading = (cpuMicroseconds: number): KernelReading => ({ cpuMicroseconds, anonBytes: 100, cacheBytes: 50 })
const COUNTS = { sessions: 0, hits: 10, reads: 5 }
const KNOWN: KnownCompute = {
  atMs: 0,
  cpuMicroseconds: 0,
  statistics: COUNTS,
  lastActive: 'then',
  silentUntil: 0,
}
const quiet = { last_active: 'then' }

test('CPU is the average since the sample before, or since the start of a new compute', () => {
  equal(cpusUsed({ age_seconds: 600 }, reading(30e6), KNOWN, 60_000), 0.5)
  equal(cpusUsed({ age_seconds: 20 }, reading(5e6), undefined, 60_000), 0.25)
  equal(cpusUsed({ age_seconds: 600 }, reading(5e6), undefined, 60_000), null)
  equal(cpusUsed({ age_seconds: 600 }, undefined, KNOWN, 60_000), null)
})

test('Postgres is asked only while the compute works', () => {
  equal(isWorking(quiet, 0.001, KNOWN, 60_000), false)
  equal(isWorking(quiet, 0.001, undefined, 60_000), true)
  equal(isWorking(quiet, 0.5, KNOWN, 60_000), true)
  equal(isWorking({ last_active: 'now' }, 0.001, KNOWN, 60_000), true)
  equal(isWorking(quiet, 0.001, { ...KNOWN, statistics: { ...COUNTS, sessions: 1 } }, 60_000), true)
  equal(isWorking({ last_active: 'now' }, 0.5, { ...KNOWN, silentUntil: 70_000 }, 60_000), false)
})

test('a compute that answers with impossible figures spoils none but its own', () => {
  const ids = { endpoint_id: 'ep', compute_id: 'c' }
  const sample = sampleOf(ids, -1, reading(0), COUNTS, { sessions: 1e300, hits: Number.NaN, reads: 4 })
  equal(sample.cpu, null)
  equal(sample.sessions, null)
  equal(sample.hits, null)
  equal(sample.reads, null)
  equal(sampleOf(ids, 1e-300, reading(0), COUNTS, { ...COUNTS, sessions: '7' as never }).sessions, null)
  equal(sampleOf(ids, 1e-300, reading(0), undefined, COUNTS).cpu, 0)
})
