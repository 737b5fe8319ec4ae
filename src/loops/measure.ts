import { countWal } from '../catalog/consumption.ts'
import { listUnmeasured, setMeasured } from '../catalog/store.ts'
import type { WorkerContext } from '../context.ts'
import { limitSizes } from './size_limits.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 10_000
/** Stores measured in one round. */
const AT_ONCE = 20

/**
 * Measures the stores of this host that are new, or whose compute has ended since they were measured; those of running
 * computes now and then, and often if their size is limited. Then it limits sizes.
 */
export function startMeasureLoop(context: WorkerContext): Loop {
  const { catalog, storage, hostId, log } = context
  const measure = async (): Promise<void> => {
    for (const store of await listUnmeasured(catalog, hostId, AT_ONCE)) {
      const size = await storage.measure(store).catch((error: unknown) => {
        // It was removed meanwhile, or is damaged: the others are measured.
        log.debug({ err: error, store: store.id }, 'could not measure a store')
        return undefined
      })
      await setMeasured(catalog, store.id, size)
      // All that the compute wrote counts, now that it has ended.
      const position = await storage.walPosition(store).catch(() => undefined)
      if (position) await countWal(catalog, new Map([[store.id, position]]))
    }
    await limitSizes(context)
  }
  return startPeriodic(EVERY_MS, measure, (error) => log.warn({ err: error }, 'could not measure stores'))
}
