import { existsSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { groupParents } from '../src/compute/process/cgroup.ts'
import { until } from './processes.ts'

/** Removes the control groups of a data directory whose computes have ended. Errors: a process is in one. */
export async function removeGroups(dataDir: string): Promise<void> {
  for (const parent of new Set(groupParents(dataDir).values()))
    if (existsSync(parent)) await until(`${parent} is without processes`, () => isRemoved(parent))
}

/** The CPU quota of a compute in microseconds per 100 ms, by the kernel; NaN when it has none. */
export function cpuQuota(dataDir: string, computeId: string): number {
  return parseInt(readFileSync(quotaFile(dataDir, computeId), 'utf8'), 10)
}

/** The memory limit of a compute in bytes, by the kernel. */
export function memoryLimit(dataDir: string, computeId: string): number {
  const group = join(groupParents(dataDir).get('memory') ?? '', computeId)
  const file = existsSync(join(group, 'memory.max')) ? 'memory.max' : 'memory.limit_in_bytes'
  return Number(readFileSync(join(group, file), 'utf8'))
}

export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

/** The groups of a process, of those that limit computes, that are no compute's. */
export function groupsOutside(pid: number): string[] {
  return readFileSync(`/proc/${pid}/cgroup`, 'utf8')
    .trim()
    .split('\n')
    .filter((line) => /^\d+:(cpu|cpuacct|memory|pids|blkio)?:/.test(line))
    .filter((line) => !/neap-[0-9a-f]{12}\/[0-9a-f-]{36}$/.test(line))
}

/** Takes the CPU quota of a compute away. */
export function removeQuota(dataDir: string, computeId: string): void {
  const file = quotaFile(dataDir, computeId)
  writeFileSync(file, file.endsWith('max') ? 'max 100000' : '-1')
}

function quotaFile(dataDir: string, computeId: string): string {
  const group = join(groupParents(dataDir).get('cpu') ?? '', computeId)
  return existsSync(join(group, 'cpu.max')) ? join(group, 'cpu.max') : join(group, 'cpu.cfs_quota_us')
}

/** A group is in use for a moment after the end of its last process. */
function isRemoved(parent: string): boolean {
  try {
    for (const entry of readdirSync(parent, { withFileTypes: true }))
      if (entry.isDirectory()) rmdirSync(join(parent, entry.name))
    rmdirSync(parent)
    return true
  } catch {
    return !existsSync(parent)
  }
}
