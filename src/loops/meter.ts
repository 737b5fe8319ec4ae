import { listComputes } from '../catalog/compute.ts'
import { countWal, meterComputes } from '../catalog/consumption.ts'
import { listOverQuota, renewAccountQuotas } from '../catalog/quota.ts'
import type { WorkerContext } from '../context.ts'
import { createSleepWatch } from '../machine_sleep.ts'
import { type Loop, startPeriodic } from './periodic.ts'
import { suspendActive } from './suspend_active.ts'

/** What is lost at most when the host is. */
const EVERY_MS = 60_000
/** A shorter sleep counts as use. */
const SLEPT_MS = 30_000

/**
 * Counts the use of the computes of this host, once a minute, and suspends those over a quota. Resizes and ends
 * count by themselves.
 */
export function startMeterLoop(context: WorkerContext): Loop {
  const { catalog, storage, hostId, log } = context
  const sleptMs = createSleepWatch()
  let hasSlept = false
  const meter = async (): Promise<void> => {
    hasSlept ||= sleptMs() > SLEPT_MS
    await meterComputes(catalog, hostId, hasSlept)
    hasSlept = false
    const positions = new Map<string, string>()
    for (const { store_id: id } of await listComputes(catalog, hostId)) {
      const position = await storage.walPosition({ id }).catch((error: unknown) => {
        log.debug({ err: error, store: id }, 'could not read the WAL position of a store')
        return undefined
      })
      if (position) positions.set(id, position)
    }
    await countWal(catalog, positions)
    await renewAccountQuotas(catalog)
    await suspendOverQuota(context)
  }
  return startPeriodic(EVERY_MS, meter, (error) => log.warn({ err: error }, 'could not count what computes have used'))
}

/** Suspends the computes of this host whose accounts or projects have used up a quota. */
async function suspendOverQuota(context: WorkerContext): Promise<void> {
  for (const endpoint of await listOverQuota(context.catalog, context.hostId))
    await suspendActive(context, endpoint, 'a quota is used up')
}
