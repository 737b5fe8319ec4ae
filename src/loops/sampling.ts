/*
 * What a worker knows of a running compute between two samples, and the figures of the next one.
 *
 * CPU and memory are the kernel's counters. Postgres is asked for its sessions and its cache only while the compute
 * works: clients were seen at the proxies since it was asked last, it had sessions then, or it used the CPU. One that
 * does not answer is left alone for a while, so that it delays the others once.
 */
import type { ComputeSample, SampledCompute } from '../catalog/compute_history.ts'
import type { ComputeStatistics } from '../compute_admin/statistics.ts'

/** The state of a compute at its last sample. */
export interface KnownCompute {
  /** By performance.now(). */
  readonly atMs: number
  readonly cpuMicroseconds: number | undefined
  readonly statistics: ComputeStatistics | undefined
  readonly lastActive: string | null
  /** By performance.now(): until when it is not asked again. */
  readonly silentUntil: number
}

/** A reading of the kernel's counters; undefined where it keeps no count. */
export interface KernelReading {
  readonly cpuMicroseconds: number
  readonly anonBytes: number
  readonly cacheBytes: number
}

/** A compute that used less of a CPU than this since its last sample ran only Postgres' own background work. */
const IDLE_CPUS = 0.005
/** A compute whose worker has not seen it before is as old as it is only if it started since the last round. */
const FIRST_SECONDS = 90
/** Figures beyond this are not those of a machine: code in a compute can answer with any number. */
const MAX_FIGURE = 1e15

/** CPUs used on average since the last sample, or since the start of a compute that is new. */
export function cpusUsed(
  compute: Pick<SampledCompute, 'age_seconds'>,
  reading: KernelReading | undefined,
  before: KnownCompute | undefined,
  nowMs: number,
): number | null {
  if (!reading) return null
  if (before) {
    if (before.cpuMicroseconds === undefined) return null
    return (reading.cpuMicroseconds - before.cpuMicroseconds) / 1e3 / Math.max(nowMs - before.atMs, 1)
  }
  if (compute.age_seconds > FIRST_SECONDS) return null
  return reading.cpuMicroseconds / 1e6 / Math.max(compute.age_seconds, 1)
}

/** Whether the compute's sessions and cache may have changed since Postgres was asked. */
export function isWorking(
  compute: Pick<SampledCompute, 'last_active'>,
  cpus: number | null,
  before: KnownCompute | undefined,
  nowMs: number,
): boolean {
  if (!before) return true
  if (nowMs < before.silentUntil) return false
  if (!before.statistics) return true
  return (cpus ?? 0) > IDLE_CPUS || before.statistics.sessions > 0 || compute.last_active !== before.lastActive
}

/** The sample of a compute. `now` stands for the answer of Postgres; the same as `before` where it was not asked. */
export function sampleOf(
  { endpoint_id, compute_id }: Pick<SampledCompute, 'endpoint_id' | 'compute_id'>,
  cpu: number | null,
  reading: KernelReading | undefined,
  before: ComputeStatistics | undefined,
  now: ComputeStatistics | undefined,
): ComputeSample {
  const grown = (name: 'hits' | 'reads') => (now && before ? figure(now[name] - before[name]) : null)
  return {
    endpoint_id,
    compute_id,
    cpu: figure(cpu),
    memory: figure(reading?.anonBytes),
    cache: figure(reading?.cacheBytes),
    sessions: figure(now?.sessions),
    hits: grown('hits'),
    reads: grown('reads'),
  }
}

/** A figure that the catalog can keep; null for one that is missing, negative or beyond measure. */
function figure(value: number | null | undefined): number | null {
  if (typeof value !== 'number' || !(value >= 0) || value > MAX_FIGURE) return null
  return value < 1e-6 ? 0 : value
}
