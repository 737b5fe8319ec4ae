/**
 * Control groups: the kernel holds each compute to its size (cgroups(7)). Each compute has a group in every hierarchy,
 * named by its instance id, so that a late write never reaches another compute.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { messageOf } from '../../errors.ts'
import type { ComputeMemory, CpuDemand, ResourceUse } from '../compute.ts'
import { type GroupFiles, type LimitWrite, type ResourceLimits, VERSION_1, VERSION_2 } from './cgroup_files.ts'
import { type Controller, type Hierarchy, readHierarchies } from './cgroup_hierarchy.ts'

/** The groups of the computes of one data directory. */
export interface Cgroups {
  /** Why computes are not held to their sizes here, and the remedy; undefined when they are. */
  readonly missing: string | undefined
  /**
   * The groups of a new compute and all limits but that of CPU, which would delay its start, for effect.pl.
   * @param first it has a larger share where CPUs are short, until it is weighed
   */
  groupsFor(instance: string, limits: ResourceLimits, first: boolean): string
  /** Limits a running compute. Returns why it is not limited, in words for its owner; undefined when it is. */
  limit(instance: string, limits: ResourceLimits): Promise<string | undefined>
  /** Gives a compute its share by size where CPUs are short, or (`first`) a larger one. Errors: the system's. */
  weigh(instance: string, cpus: number, first: boolean): void
  /** The CPU time that it has used, in microseconds. Errors: the system's. */
  cpuTime(instance: string): number
  /** The CPU time that all computes have used together, in microseconds. Errors: the system's. */
  totalCpuTime(): number
  /** Errors: the system's. */
  use(instance: string): ResourceUse
  /** The memory of all computes together; undefined where they are in no groups. */
  memory(): ComputeMemory | undefined
  /** Errors: the system's. */
  demand(instance: string): CpuDemand
  /** A sentence if the kernel has killed a process of it at its memory limit. */
  outOfMemory(instance: string): string | undefined
  /** Removes the groups of a compute that has ended. */
  remove(instance: string): void
  /** Removes the groups of all computes that have ended; young ones may be those of one that starts. */
  sweep(): void
  /** Removes all groups, but those with processes: when Neap ends. */
  leave(): void
}

const NEEDED: readonly Controller[] = ['cpu', 'cpuacct', 'memory', 'pids']
/** Younger groups may be those of a compute that is starting. */
const SWEEP_AGE_MS = 60_000
/** The part of a limit that a compute may hold when its limit had to follow what it holds. */
const MEMORY_SPARE = 0.75
/** The processes of one compute that are read at most: there may be two thousand. */
const READ_AT_MOST = 256
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
  for (const { version, mountPoint, base, controllers } of hierarchies)
    if (version === 2 || !isUnified(hierarchies))
      for (const controller of controllers) parents.set(controller, join(mountPoint, base, name))
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

  /** Whether a process is in all groups that limit a compute. */
  function isPopulated(instance: string): boolean {
    try {
      return NEEDED.every((controller) => reader(instance)(controller, 'cgroup.procs') !== '')
    } catch {
      return false
    }
  }

  /** Limits a compute. Returns why its memory is not limited as it should be. Errors: the system's. */
  async function apply(instance: string, limits: ResourceLimits): Promise<string | undefined> {
    const held = files.use(reader(instance)).anonBytes
    const limit = files.memoryLimit(reader(instance))
    // Version 2 would end a process of it, version 1 refuses.
    const isOver = limits.memoryBytes < held
    // Never more than it has: a tenant decides what he holds.
    const spare = Math.min(Math.ceil(held / MEMORY_SPARE), limit)
    const memoryBytes = isOver ? Math.max(spare, limits.memoryBytes) : limits.memoryBytes
    // A lower memory limit waits for the pages that are reclaimed. All else takes no time, and a client may wait.
    const write = memoryBytes < limit ? writeFile : writeFileSync
    let failed: Error | undefined
    for (const { controller, file, value, optional } of [
      files.cpuQuota(limits),
      ...files.limits({ ...limits, memoryBytes }),
    ])
      try {
        await write(fileOf(controller, instance, file), value)
      } catch (error) {
        if (!optional) failed ??= error as Error
      }
    if (isOver) return `its memory limit follows what it holds: over ${mib(limits.memoryBytes)} cannot be reclaimed`
    if (failed) throw failed
    return undefined
  }

  function remove(instance: string): void {
    for (const parent of parents) removeGroup(join(parent, instance))
  }

  const missing = findMissing(parentOf, files, isUnified(hierarchies))

  return {
    missing,
    async limit(instance, limits) {
      // Neither a path nor a process id of the host is for tenants.
      if (missing !== undefined) return 'this host limits no computes: its administrator sees why by neap status'
      if (!isPopulated(instance)) return 'it is in no control group: restart it to put it into one'
      return apply(instance, limits).catch(
        (error: unknown) => `its control groups cannot be read or written (${codeOf(error)})`,
      )
    },
    groupsFor(instance, limits, first) {
      if (missing !== undefined) return ''
      const joined = parents.map((parent) => `join\t${join(parent, instance)}`)
      const set = [...files.limits(limits), files.weight(limits.cpus, first)].map(
        ({ controller, file, value }) => `set\t${fileOf(controller, instance, file)}\t${value}`,
      )
      return [...joined, ...set].join('\n')
    },
    weigh(instance, cpus, first) {
      const { controller, file, value } = files.weight(cpus, first)
      writeFileSync(fileOf(controller, instance, file), value)
    },
    cpuTime: (instance) => files.cpuTime(reader(instance)),
    totalCpuTime: () => files.cpuTime(reader('')),
    use: (instance) => files.use(reader(instance)),
    // Of the group above them, to which the kernel adds the use of all below it.
    memory: () => (missing === undefined ? files.use(reader('')) : undefined),
    demand: (instance) => demandOf(reader(instance)('cpuacct', 'cgroup.procs').split('\n').filter(Boolean).map(Number)),
    outOfMemory(instance) {
      try {
        const limit = files.limitExceeded(reader(instance))
        if (limit === undefined) return undefined
        return `the kernel ended a process of it at its memory limit of ${mib(limit)}`
      } catch {
        // It had no groups.
        return undefined
      }
    },
    remove,
    sweep: () => parents.flatMap(groupsIn).filter(isOld).forEach(removeGroup),
    leave: () => parents.flatMap((parent) => [...groupsIn(parent), parent]).forEach(removeGroup),
  }
}

/** Why computes cannot be limited, found by making a group as a compute has it. */
function findMissing(
  parentOf: ReadonlyMap<Controller, string>,
  files: GroupFiles,
  isVersion2: boolean,
): string | undefined {
  if (process.platform !== 'linux') return 'this is for Linux only'
  const absent = NEEDED.filter((controller) => !parentOf.has(controller))
  if (absent.length > 0) return `control groups are without ${absent.join(', ')}`
  const parents = [...new Set(parentOf.values())]
  // Another process of this Neap may try at the same time.
  const trial = `trial-${process.pid}`
  try {
    for (const parent of parents) {
      mkdirSync(parent, { recursive: true })
      if (isVersion2) for (const group of [dirname(parent), parent]) enableControllers(group)
      mkdirSync(join(parent, trial), { recursive: true })
    }
    const write = ({ controller, file, value }: LimitWrite, group: string) =>
      writeFileSync(join(parentOf.get(controller) ?? '', group, file), value)
    write(files.weightOfAll(availableParallelism()), '')
    for (const each of [files.cpuQuota(TRIAL), ...files.limits(TRIAL)]) if (!each.optional) write(each, trial)
    return undefined
  } catch (error) {
    return `control groups cannot be made: ${messageOf(error)}`
  } finally {
    for (const parent of parents) removeGroup(join(parent, trial))
  }
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? 'unknown error'

const mib = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`

/** Gives the groups below a group of version 2 their controllers. Its own processes move to one of them. */
function enableControllers(group: string): void {
  const has = (file: string) => readFileSync(join(group, file), 'utf8').trim().split(' ')
  const wanted = has('cgroup.controllers').filter((name) => ['cpu', 'memory', 'io', 'pids'].includes(name))
  const enabled = has('cgroup.subtree_control')
  const lacking = wanted.filter((name) => !enabled.includes(name))
  if (lacking.length === 0) return
  const enable = () => writeFileSync(join(group, 'cgroup.subtree_control'), lacking.map((name) => `+${name}`).join(' '))
  try {
    enable()
  } catch (error) {
    // Only a group without processes of its own gives controllers on, unless it is the root of all.
    if (codeOf(error) !== 'EBUSY') throw error
    const leaf = join(group, 'neap-plane')
    mkdirSync(leaf, { recursive: true })
    for (const pid of readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean))
      writeFileSync(join(leaf, 'cgroup.procs'), pid)
    enable()
  }
}

/** What processes asked for, all or, of many, a part. */
function demandOf(pids: readonly number[]): CpuDemand {
  const stride = 2 ** Math.ceil(Math.log2(Math.max(1, pids.length / READ_AT_MOST)))
  const byPid = new Map<number, number>()
  for (const pid of pids) {
    const microseconds = pid % stride === 0 ? runOrWaitTime(pid) : undefined
    if (microseconds !== undefined) byPid.set(pid, microseconds)
  }
  return { byPid, stride }
}

/** The microseconds for which a process ran or was ready to run (kernel manual, "Scheduler Statistics"). */
function runOrWaitTime(pid: number): number | undefined {
  try {
    const [ran = 0, waited = 0] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ').map(Number)
    return (ran + waited) / 1000
  } catch {
    // It has ended.
    return undefined
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
