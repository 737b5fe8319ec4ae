import { listComputes } from '../catalog/compute.ts'
import { countWal, meterComputes } from '../catalog/consumption.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

/** What is lost at most when the host is. */
const EVERY_MS = 60_000
/** A wall clock that went so much further than the machine ran shows that it slept. */
const SLEPT_MS = 30_000

/** Counts what the computes of this host have used, once a minute; their resizes and ends count by themselves. */
export function startMeterLoop({ catalog, storage, hostId, log }: WorkerContext): Loop {
  let before = clocks()
  const meter = async (): Promise<void> => {
    const now = clocks()
    const slept = now.wall - before.wall - (now.awake - before.awake) > SLEPT_MS
    await meterComputes(catalog, hostId, slept)
    before = now
    const positions = new Map<string, string>()
    for (const { store_id: id } of await listComputes(catalog, hostId)) {
      const position = await storage.walPosition({ id }).catch((error: unknown) => {
        log.debug({ err: error, store: id }, 'could not read the WAL position of a store')
        return undefined
      })
      if (position) positions.set(id, position)
    }
    await countWal(catalog, positions)
  }
  return startPeriodic(EVERY_MS, meter, (error) => log.warn({ err: error }, 'could not count what computes have used'))
}

/** CLOCK_MONOTONIC, which performance.now() reads, stands still while a machine sleeps (clock_gettime(2)). */
const clocks = () => ({ wall: Date.now(), awake: performance.now() })
