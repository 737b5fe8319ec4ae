import { countWal } from '../catalog/consumption.ts'
import { listUnmeasured, setMeasured } from '../catalog/store.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 60_000
/** Stores measured in one round. */
const AT_ONCE = 20

/**
 * Measures the stores of this host that are new, or whose compute has ended since they were measured; those of running
 * computes now and then.
 */
export function startMeasureLoop({ catalog, storage, hostId, log }: WorkerContext): Loop {
  const measure = async (): Promise<void> => {
    for (const store of await listUnmeasured(catalog, hostId, AT_ONCE)) {
      const bytes = await storage.measure(store).catch((error: unknown) => {
        // It was removed meanwhile, or is damaged: the others are measured.
        log.debug({ err: error, store: store.id }, 'could not measure a store')
        return undefined
      })
      await setMeasured(catalog, store.id, bytes ?? null)
      // All that the compute wrote counts, now that it has ended.
      const position = await storage.walPosition(store).catch(() => undefined)
      if (position) await countWal(catalog, new Map([[store.id, position]]))
    }
  }
  return startPeriodic(EVERY_MS, measure, (error) => log.warn({ err: error }, 'could not measure stores'))
}
