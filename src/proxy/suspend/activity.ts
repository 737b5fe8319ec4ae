import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import { setLastActive } from '../../catalog/endpoint.ts'
import type { TrafficCounts } from '../../catalog/traffic.ts'
import type { TrafficTable } from './traffic.ts'
import { createCountWriter } from './traffic_counts.ts'

const EVERY_MS = 1_000

export interface ActivityWriter {
  /**
   * Writes the last activity of endpoints used since the last call. Entries that cannot be written are kept for the
   * next call. Also adds the traffic counts, without waiting for them.
   */
  write(): Promise<void>
  stop(): Promise<void>
}

/**
 * Once a second, writes to the catalog the time of the last byte and the traffic counts of each endpoint with traffic.
 * @param onCounted called with the counts of each endpoint
 */
export function startActivityWriter(
  catalog: Catalog,
  table: TrafficTable,
  log: Logger,
  onCounted: (counts: TrafficCounts) => void = () => {},
): ActivityWriter {
  const unwritten = new Map<string, number>()
  const counts = createCountWriter(catalog)

  async function writeSeen(): Promise<void> {
    for (const [endpointId, ms] of table.takeSeen()) unwritten.set(endpointId, ms)
    if (unwritten.size === 0) return
    const seen = new Map(unwritten)
    for (const endpointId of await setLastActive(catalog, seen)) seen.delete(endpointId)
    for (const [endpointId, ms] of seen) if (unwritten.get(endpointId) === ms) unwritten.delete(endpointId)
  }

  async function writeCounts(): Promise<void> {
    const counted = table.takeCounts()
    for (const each of counted.values()) onCounted(each)
    counts.take(counted)
    await counts
      .write()
      .catch((error: unknown) => log.debug({ err: error }, 'could not write traffic counts; they are written later'))
  }

  async function writeOrLog(): Promise<void> {
    const written = writeCounts()
    await writeSeen().catch((error: unknown) => log.debug({ err: error }, 'could not write the activity of endpoints'))
    await written
  }

  const timer = setInterval(() => void writeOrLog(), EVERY_MS)

  return {
    write() {
      // Add the counts before a deleted endpoint and its branch are removed from the catalog.
      void writeCounts()
      return writeSeen()
    },
    async stop() {
      clearInterval(timer)
      await writeOrLog()
    },
  }
}
