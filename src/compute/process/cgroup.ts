/**
 * Control groups: the kernel holds each compute to its size (cgroups(7)). Each compute has a group in every hierarchy,
 * named by its instance id, so that a late write never reaches another compute.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../errors.ts'
import type { ResourceUse } from '../compute.ts'
import { type LimitWrite, type ResourceLimits, VERSION_1, VERSION_2 } from './cgroup_files.ts'
import { type Controller, type Hierarchy, readHierarchies } from './cgroup_hierarchy.ts'

/** The groups of the computes of one data directory. */
export interface Cgroups {
  /** Why computes are not held to their sizes here, and the remedy; undefined when they are. */
  readonly missing: string | undefined
  /** The groups of a new compute and all limits but that of CPU, which would delay its start, for effect.pl. */
  groupsFor(instance: string, limits: ResourceLimits): string
  /** Limits a running compute. Returns why it is not limited; undefined when it is. */
  limit(instance: string, limits: ResourceLimits): string | undefined
  /** Errors: the system's. */
  use(instance: string): ResourceUse
  /** The microseconds for which each of its processes ran or waited for a CPU, by pid. Errors: the system's. */
  demand(instance: string): ReadonlyMap<string, number>
  /** A sentence if the kernel has killed a process of it at its memory limit. */
  outOfMemory(instance: string): string | undefined
  /** Removes the groups of a compute that has ended. */
  remove(instance: string): void
  /** Removes the groups of all computes that have ended; young ones may be those of one that starts. */
  sweep(): void
}

const NEEDED: readonly Controller[] = ['cpu', 'cpuacct', 'memory', 'pids']
/** Younger groups may be those of a compute that is starting. */
const SWEEP_AGE_MS = 60_000
/** Processes of a compute whose waiting is added up. */
const MAX_PROCESSES_READ = 64
const TRIAL: ResourceLimits = { cpus: 0.25, memoryBytes: 2 ** 30, processes: 100 }

/** Whether the controllers are those of version 2. */
const isUnified = (hierarchies: readonly Hierarchy[]): boolean =>
  hierarchies.some(({ version, controllers }) => version === 2 && controllers.includes('cpu'))

/** The group, for each controller, in which the computes of a data directory have theirs. */
export function groupParents(
  dataDir: string,
  hierarchies: readonly Hierarchy[] = readHierarchies(),
): ReadonlyMap<Controller, string> {
  const name = `neap-${createHash('sha256').update(dataDir).digest('hex').slice(0, 12)}`
  const parents = new Map<Controller, string>()
  for (const { version, mountPoint, own, controllers } of hierarchies)
    if (version === 2 || !isUnified(hierarchies))
      for (const controller of controllers) parents.set(controller, join(mountPoint, own, name))
  return parents
}

/** @param dataDir each data directory has groups of its own */
export function cgroups(dataDir: string, hierarchies: readonly Hierarchy[] = readHierarchies()): Cgroups {
  const files = isUnified(hierarchies) ? VERSION_2 : VERSION_1
  const parentOf = groupParents(dataDir, hierarchies)
  const parents = [...new Set(parentOf.values())]

  const fileOf = (controller: Controller, instance: string, file: string) =>
    join(parentOf.get(controller) ?? '/nonexistent', instance, file)
  const reader = (instance: string) => (controller: Controller, file: string) =>
    readFileSync(fileOf(controller, instance, file), 'utf8')
  function write(instance: string, { controller, file, value, optional }: LimitWrite): void {
    try {
      writeFileSync(fileOf(controller, instance, file), value)
    } catch (error) {
      if (!optional) throw error
    }
  }
  function writeAll(instance: string, limits: ResourceLimits): void {
    for (const each of [...files.limits(limits), files.cpuQuota(limits)]) write(instance, each)
  }

  /** Removes the groups of a compute, and their parents if it was the last one: a start makes them again. */
  function remove(instance: string): void {
    for (const parent of parents) for (const group of [join(parent, instance), parent]) removeGroup(group)
  }

  /** Makes a group as a compute has it, and removes it. */
  function findMissing(): string | undefined {
    if (process.platform !== 'linux') return 'this is for Linux only'
    const absent = NEEDED.filter((controller) => !parentOf.has(controller))
    if (absent.length > 0) return `control groups are without ${absent.join(', ')}`
    // Another process of this Neap may try at the same time.
    const trial = `trial-${process.pid}`
    try {
      for (const parent of parents) mkdirSync(join(parent, trial), { recursive: true })
      writeAll(trial, TRIAL)
      return undefined
    } catch (error) {
      return `control groups cannot be made: ${messageOf(error)}`
    } finally {
      for (const parent of parents) removeGroup(join(parent, trial))
    }
  }
  const missing = findMissing()

  return {
    missing,
    limit(instance, limits) {
      if (missing !== undefined) return missing
      try {
        writeAll(instance, limits)
        return undefined
      } catch (error) {
        return isAbsent(error)
          ? 'it is in no control group: restart it, which starts it in one'
          : `its control groups cannot be written: ${messageOf(error)}`
      }
    },
    groupsFor(instance, limits) {
      if (missing !== undefined) return ''
      const joined = parents.map((parent) => `join\t${join(parent, instance)}`)
      const set = files
        .limits(limits)
        .map(({ controller, file, value }) => `set\t${fileOf(controller, instance, file)}\t${value}`)
      return [...joined, ...set].join('\n')
    },
    use: (instance) => files.use(reader(instance)),
    demand(instance) {
      const pids = reader(instance)('cpuacct', 'cgroup.procs').split('\n').filter(Boolean)
      return new Map(pids.slice(0, MAX_PROCESSES_READ).map((pid) => [pid, runOrWaitTime(pid)]))
    },
    outOfMemory(instance) {
      try {
        const limit = files.limitExceeded(reader(instance))
        if (limit === undefined) return undefined
        return `the kernel ended a process of it at its memory limit of ${Math.round(limit / 2 ** 20)} MiB`
      } catch {
        // It had no groups.
        return undefined
      }
    },
    remove,
    sweep() {
      for (const parent of parents) for (const group of groupsIn(parent)) if (isOld(group)) removeGroup(group)
    },
  }
}

const isAbsent = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'

/** The microseconds for which a process ran or was ready to run (kernel manual, "Scheduler Statistics"). */
function runOrWaitTime(pid: string): number {
  try {
    const [ran = 0, waited = 0] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ').map(Number)
    return (ran + waited) / 1000
  } catch {
    // It has ended.
    return 0
  }
}

function groupsIn(parent: string): string[] {
  try {
    return readdirSync(parent, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => join(parent, name))
  } catch {
    return []
  }
}

function isOld(group: string): boolean {
  const made = statSync(group, { throwIfNoEntry: false })?.mtimeMs
  return made !== undefined && Date.now() - made > SWEEP_AGE_MS
}

/** Removes a group without processes, and no other. */
function removeGroup(group: string): void {
  try {
    rmdirSync(group)
  } catch {
    // It is in use, or gone.
  }
}
