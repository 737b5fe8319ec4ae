import { countWal } from '../catalog/consumption.ts'
import { noteSpaceChange } from '../catalog/space.ts'
import { listLimited, listUnmeasured, setMeasured } from '../catalog/store.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 10_000
/** Stores measured in one round. */
const AT_ONCE = 20
/** A compute that has used less CPU than this since it was measured has not written. */
const IDLE_MICROSECONDS = 5_000

/**
 * Measures the stores of this host that are new, or whose compute has ended since they were measured; those of running
 * computes now and then, and in each round if their size is limited and they work.
 */
export function startMeasureLoop(context: WorkerContext): Loop {
  const { catalog, storage, hostId, log } = context
  const hasWorked = createWorkWatch(context)

  /** One that cannot be measured keeps no other waiting. */
  const measure = ({ id }: { readonly id: string }): Promise<void> =>
    measureStore(id).catch((error: unknown) => log.warn({ err: error, store: id }, 'could not measure a store'))

  async function measureStore(id: string): Promise<void> {
    const size = await storage.measure({ id }).catch((error: unknown) => {
      // It was removed meanwhile, or is damaged: the others are measured.
      log.debug({ err: error, store: id }, 'could not measure a store')
      return undefined
    })
    const isSlow = await storage.clonesSlowly({ id }).catch(() => false)
    if (!isSlow)
      await storage
        .tendSpares({ id }, { base: undefined, ofData: false, count: 0 })
        .catch((error: unknown) => log.warn({ err: error, store: id }, 'could not remove a clone made ahead'))
    await setMeasured(catalog, id, size, isSlow)
    await noteSpaceChange(catalog, id)
    // All that the compute wrote counts, now that it has ended.
    const position = await storage.walPosition({ id }).catch(() => undefined)
    if (position) await countWal(catalog, new Map([[id, position]]))
  }

  const round = async (): Promise<void> => {
    for (const store of await listUnmeasured(catalog, hostId, AT_ONCE)) await measure(store)
    const limited = await listLimited(catalog, hostId)
    for (const store of await hasWorked(limited)) await measure(store)
  }
  return startPeriodic(EVERY_MS, round, (error) => log.warn({ err: error }, 'could not measure stores'))
}

/** Returns a function that returns those stores whose computes have used CPU since it returned them last. */
function createWorkWatch({ computes }: WorkerContext) {
  let known = new Map<string, number>()
  return async (stores: readonly { readonly id: string; readonly compute_id: string }[]) => {
    const before = known
    known = new Map()
    const worked = []
    for (const store of stores) {
      const used = before.get(store.compute_id)
      // Where its CPU time is not counted, it may have worked.
      const now = await computes.readCpuTime(store.compute_id).catch(() => Infinity)
      const isIdle = used !== undefined && now - used < IDLE_MICROSECONDS
      known.set(store.compute_id, isIdle ? used : now)
      if (!isIdle) worked.push(store)
    }
    return worked
  }
}
