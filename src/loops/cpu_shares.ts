import { availableParallelism } from 'node:os'
import type { Computes } from '../compute/compute.ts'
import type { WorkerContext } from '../context.ts'
import { type CpuUse, heavyUsers, SHORT } from '../scaling/shares.ts'

/** A running compute and its size. */
interface SizedCompute {
  readonly compute_id: string
  readonly cu: number
}

interface Reading {
  /** By performance.now(). */
  readonly atMs: number
  readonly microseconds: number
}

interface Shared {
  /** The last reading of its counter. */
  reading: Reading | undefined
  /** What its group was told last. */
  share: { readonly cu: number; readonly comesFirst: boolean } | undefined
}

/**
 * Returns a function that lets those computes of a host run first that have used little of their size lately. While all
 * of them together leave CPUs idle, it reads one counter, however many run.
 */
export function createCpuShares(
  {
    computes,
    log,
  }: Pick<WorkerContext, 'log'> & { readonly computes: Pick<Computes, 'readCpuTime' | 'readTotalCpuTime' | 'weigh'> },
  cpus = availableParallelism(),
): (running: readonly SizedCompute[]) => Promise<void> {
  let known = new Map<string, Shared>()
  let total: Reading | undefined

  return async (running) => {
    known = new Map(
      running.map(({ compute_id: id }) => [id, known.get(id) ?? { reading: undefined, share: undefined }]),
    )
    // A single compute shares the CPUs with no other.
    if (running.length < 2) return
    const heavy = (await mayBeShort()) ? heavyUsers(await readUses(running), cpus) : new Set<string>()
    for (const compute of running) await weigh(compute, !heavy.has(compute.compute_id))
  }

  /** Whether all computes together have used so much that the CPUs may be short. */
  async function mayBeShort(): Promise<boolean> {
    const before = total
    total = await read(() => computes.readTotalCpuTime())
    if (!before || !total || cpusBetween(before, total) >= SHORT * cpus) return true
    // A heavy moment is measured from a reading at its begin.
    for (const shared of known.values()) shared.reading = undefined
    return false
  }

  async function readUses(running: readonly SizedCompute[]): Promise<CpuUse[]> {
    const uses: CpuUse[] = []
    for (const { compute_id: id, cu } of running) {
      const shared = known.get(id)
      if (!shared) continue
      const before = shared.reading
      shared.reading = await read(() => computes.readCpuTime(id), id)
      if (before && shared.reading) uses.push({ id, cu, used: cpusBetween(before, shared.reading) })
    }
    return uses
  }

  async function read(counter: () => Promise<number>, compute?: string): Promise<Reading | undefined> {
    try {
      return { microseconds: await counter(), atMs: performance.now() }
    } catch (error) {
      log.debug({ err: error, compute }, 'could not read the CPU time of a compute')
      return undefined
    }
  }

  async function weigh({ compute_id: id, cu }: SizedCompute, comesFirst: boolean): Promise<void> {
    const shared = known.get(id)
    if (!shared || (shared.share?.cu === cu && shared.share.comesFirst === comesFirst)) return
    try {
      await computes.weigh(id, { cu, comesFirst })
      shared.share = { cu, comesFirst }
    } catch (error) {
      log.debug({ err: error, compute: id }, 'could not set the CPU share of a compute')
    }
  }
}

/** CPUs used between two readings. */
const cpusBetween = (before: Reading, after: Reading): number =>
  (after.microseconds - before.microseconds) / 1000 / (after.atMs - before.atMs)
