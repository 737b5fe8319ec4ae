import { availableParallelism } from 'node:os'
import type { WorkerContext } from '../context.ts'
import { type CpuUse, heavyUsers } from '../scaling/shares.ts'

/** A running compute and its size. */
interface SizedCompute {
  readonly compute_id: string
  readonly cu: number
}

interface Shared {
  /** The last reading of its counter, by performance.now(). */
  reading: { readonly atMs: number; readonly microseconds: number } | undefined
  /** What its group was told last. */
  share: { readonly cu: number; readonly comesFirst: boolean } | undefined
}

/** Returns a function that lets those computes of a host run first that have used little of their size lately. */
export function createCpuShares({ computes, log }: WorkerContext): (running: readonly SizedCompute[]) => Promise<void> {
  let known = new Map<string, Shared>()
  const cpus = availableParallelism()

  return async (running) => {
    known = new Map(
      running.map(({ compute_id: id }) => [id, known.get(id) ?? { reading: undefined, share: undefined }]),
    )
    // A single compute shares the CPUs with no other.
    if (running.length < 2) return
    const uses: CpuUse[] = []
    for (const compute of running) {
      const use = await readUse(compute)
      if (use) uses.push(use)
    }
    const heavy = heavyUsers(uses, cpus)
    for (const compute of running) await weigh(compute, !heavy.has(compute.compute_id))
  }

  /** Returns the use since the last reading; undefined at the first one, and when its counter cannot be read. */
  async function readUse({ compute_id: id, cu }: SizedCompute): Promise<CpuUse | undefined> {
    const shared = known.get(id)
    if (!shared) return undefined
    try {
      const before = shared.reading
      const now = { microseconds: await computes.readCpuTime(id), atMs: performance.now() }
      shared.reading = now
      return before && { id, cu, used: (now.microseconds - before.microseconds) / 1000 / (now.atMs - before.atMs) }
    } catch (error) {
      log.debug({ err: error, compute: id }, 'could not read the CPU time of a compute')
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
