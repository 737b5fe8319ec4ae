import type { CpuDemand, ResourceUse } from '../compute/compute.ts'
import type { UseSample } from './policy.ts'

/** What was read of a compute at one time. */
export interface UseReading extends ResourceUse {
  /** By performance.now(). */
  readonly atMs: number
  /** Undefined when it was not read. */
  readonly demand: CpuDemand | undefined
}

const PAGE_BYTES = 4096

/** What a compute used between two readings. */
export function sampleBetween(before: UseReading, after: UseReading): UseSample {
  const seconds = Math.max(after.atMs - before.atMs, 1) / 1000
  const part = (microseconds: number) => Math.max(0, microseconds / 1e6 / seconds)
  const used = part(after.cpuMicroseconds - before.cpuMicroseconds)
  const periods = after.periods - before.periods
  return {
    seconds,
    used,
    wanted: Math.max(used, before.demand && after.demand ? part(grown(before.demand, after.demand)) : 0),
    throttled: periods > 0 ? (after.throttledPeriods - before.throttledPeriods) / periods : 0,
    anonBytes: after.anonBytes,
    cacheBytes: after.cacheBytes,
    refaultBytes: Math.max(0, after.refaults - before.refaults) * PAGE_BYTES,
    memoryStall: part((after.memoryStallMicroseconds ?? 0) - (before.memoryStallMicroseconds ?? 0)),
  }
}

/**
 * The microseconds that all processes took, from those read both times. What a process took before the first reading
 * that has it is unknown, and left out.
 */
function grown(before: CpuDemand, after: CpuDemand): number {
  const stride = Math.max(before.stride, after.stride)
  let sum = 0
  for (const [pid, microseconds] of after.byPid)
    if (pid % stride === 0) sum += Math.max(0, microseconds - (before.byPid.get(pid) ?? microseconds))
  return sum * stride
}
