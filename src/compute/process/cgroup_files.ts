/** The files of a control group, as version 2 and version 1 call them. */
import type { ResourceUse } from '../compute.ts'
import type { Controller } from './cgroup_hierarchy.ts'

/** The size that a compute is held to. */
export interface ResourceLimits {
  /** CPU seconds per second. */
  readonly cpus: number
  readonly memoryBytes: number
  readonly processes: number
}

export interface LimitWrite {
  readonly controller: Controller
  readonly file: string
  readonly value: string
  /** Absent on kernels or devices that do not have it. */
  readonly optional?: boolean
}

/** Reads a file of a compute's group. */
export type ReadGroup = (controller: Controller, file: string) => string

export interface GroupFiles {
  /** What limits a compute beside its CPU quota. */
  limits(size: ResourceLimits): LimitWrite[]
  cpuQuota(size: ResourceLimits): LimitWrite
  /** The share of a compute where CPUs are short, in proportion to its size, or (`first`) eight times as much. */
  weight(cpus: number, first: boolean): LimitWrite
  /** The share of all computes: an eighth of each CPU where other programs, such as the proxies, need it all. */
  weightOfAll(machineCpus: number): LimitWrite
  /** The CPU time that was used, in microseconds: a cheaper reading than `use`. */
  cpuTime(read: ReadGroup): number
  use(read: ReadGroup): ResourceUse
  /** The memory limit, in bytes; Infinity without one. */
  memoryLimit(read: ReadGroup): number
  /** The memory limit at which the kernel has killed a process, in bytes; undefined when it has not. */
  limitExceeded(read: ReadGroup): number | undefined
}

const PERIOD_US = 100_000
/** Unused quota that is kept for later. Not over the least quota there is, so that it never conflicts with one. */
const BURST_US = PERIOD_US / 4
/** How many times its share a compute has that comes first. */
const FIRST = 8
/** Part of the memory limit above which the kernel reclaims. */
const SOFT = 0.95

const quotaOf = ({ cpus }: ResourceLimits): number => Math.round(cpus * PERIOD_US)
const soft = ({ memoryBytes }: ResourceLimits): string => String(Math.floor(memoryBytes * SOFT))

/** Kernel manual, "Control Group v2". */
export const VERSION_2: GroupFiles = {
  limits: (size) => [
    // The soft limit first: it reclaims, while a hard limit that is lowered below what is in use ends processes.
    { controller: 'memory', file: 'memory.high', value: soft(size) },
    { controller: 'memory', file: 'memory.max', value: String(size.memoryBytes) },
    // Swapped out, it would exceed its memory unseen.
    { controller: 'memory', file: 'memory.swap.max', value: '0', optional: true },
    { controller: 'pids', file: 'pids.max', value: String(size.processes) },
    { controller: 'cpu', file: 'cpu.max.burst', value: String(BURST_US), optional: true },
    { controller: 'io', file: 'io.weight', value: `default ${Math.round(100 * size.cpus)}`, optional: true },
  ],
  cpuQuota: (size) => ({ controller: 'cpu', file: 'cpu.max', value: `${quotaOf(size)} ${PERIOD_US}` }),
  weight: (cpus, first) => ({
    controller: 'cpu',
    file: 'cpu.weight',
    value: String(Math.round(100 * cpus * (first ? FIRST : 1))),
  }),
  weightOfAll: (cpus) => ({ controller: 'cpu', file: 'cpu.weight', value: String(Math.min(13 * cpus, 10_000)) }),
  cpuTime: (read) => numberAfter('usage_usec', read('cpu', 'cpu.stat')),
  use(read) {
    const cpu = read('cpu', 'cpu.stat')
    const memory = read('memory', 'memory.stat')
    return {
      cpuMicroseconds: VERSION_2.cpuTime(read),
      periods: numberAfter('nr_periods', cpu),
      throttledPeriods: numberAfter('nr_throttled', cpu),
      anonBytes: ['anon', 'shmem', 'kernel'].reduce((sum, name) => sum + numberAfter(name, memory), 0),
      cacheBytes: numberAfter('file', memory) - numberAfter('shmem', memory),
      refaults: numberAfter('workingset_refault_file', memory) + numberAfter('workingset_refault_anon', memory),
      memoryStallMicroseconds: stallIn(read),
    }
  },
  memoryLimit: (read) => Number(read('memory', 'memory.max').trim().replace('max', 'Infinity')),
  // Processes are also killed when the host runs out of memory: then the group's own limit was not reached.
  limitExceeded: (read) =>
    ['oom', 'oom_kill'].every((name) => numberAfter(name, read('memory', 'memory.events')) > 0)
      ? VERSION_2.memoryLimit(read)
      : undefined,
}

/** Kernel manual, "CFS Bandwidth Control" and "Memory Resource Controller" (cgroup v1). */
export const VERSION_1: GroupFiles = {
  limits: (size) => [
    { controller: 'memory', file: 'memory.limit_in_bytes', value: String(size.memoryBytes) },
    { controller: 'memory', file: 'memory.soft_limit_in_bytes', value: soft(size) },
    // Swapped out, it would exceed its memory unseen.
    { controller: 'memory', file: 'memory.swappiness', value: '0', optional: true },
    { controller: 'pids', file: 'pids.max', value: String(size.processes) },
    { controller: 'cpu', file: 'cpu.cfs_burst_us', value: String(BURST_US), optional: true },
    { controller: 'io', file: 'blkio.bfq.weight', value: String(Math.round(100 * size.cpus)), optional: true },
  ],
  cpuQuota: (size) => ({ controller: 'cpu', file: 'cpu.cfs_quota_us', value: String(quotaOf(size)) }),
  weight: (cpus, first) => ({
    controller: 'cpu',
    file: 'cpu.shares',
    value: String(Math.round(1024 * cpus * (first ? FIRST : 1))),
  }),
  weightOfAll: (cpus) => ({ controller: 'cpu', file: 'cpu.shares', value: String(128 * cpus) }),
  cpuTime: (read) => Math.round(Number(read('cpuacct', 'cpuacct.usage')) / 1000),
  use(read) {
    const cpu = read('cpu', 'cpu.stat')
    const memory = read('memory', 'memory.stat')
    const shared = numberAfter('total_shmem', memory)
    return {
      cpuMicroseconds: VERSION_1.cpuTime(read),
      periods: numberAfter('nr_periods', cpu),
      throttledPeriods: numberAfter('nr_throttled', cpu),
      anonBytes: numberAfter('total_rss', memory) + shared,
      cacheBytes: numberAfter('total_cache', memory) - shared,
      refaults:
        numberAfter('total_workingset_refault_file', memory) + numberAfter('total_workingset_refault_anon', memory),
      memoryStallMicroseconds: stallIn(read),
    }
  },
  memoryLimit: (read) => Number(read('memory', 'memory.limit_in_bytes')),
  limitExceeded: (read) =>
    numberAfter('oom_kill', read('memory', 'memory.oom_control')) > 0 && Number(read('memory', 'memory.failcnt')) > 0
      ? VERSION_1.memoryLimit(read)
      : undefined,
}

/** Pressure stall information (kernel manual, "PSI"): the time for which at least one process waited. */
function stallIn(read: ReadGroup): number | undefined {
  try {
    return Number(/^some .*total=(\d+)/m.exec(read('pressure', 'memory.pressure'))?.[1])
  } catch {
    return undefined
  }
}

/** The number after a name, in a file of lines "name number". */
function numberAfter(name: string, text: string): number {
  const start = text.startsWith(`${name} `) ? 0 : text.indexOf(`\n${name} `) + 1
  if (start === 0 && !text.startsWith(`${name} `)) return 0
  return parseInt(text.slice(start + name.length + 1), 10)
}
