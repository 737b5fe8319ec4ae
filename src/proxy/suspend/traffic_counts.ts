import { randomUUID } from 'node:crypto'
import type { Catalog } from '../../catalog/catalog.ts'
import { addTraffic, type TrafficCounts } from '../../catalog/traffic.ts'

/** Adds traffic counts per endpoint to the catalog. */
export interface CountWriter {
  /** Queues counts for the next `write`. */
  take(counted: ReadonlyMap<string, TrafficCounts>): void
  /**
   * Adds all queued counts. After a failure it is unknown whether the catalog stored the batch, so it is sent again
   * unchanged under the same number, by which the catalog detects duplicates. Errors: any, of the catalog.
   */
  write(): Promise<void>
}

export function createCountWriter(catalog: Catalog): CountWriter {
  const id = randomUUID()
  let waiting = new Map<string, TrafficCounts>()
  let sent: ReadonlyMap<string, TrafficCounts> | undefined
  let batch = 0
  let writing: Promise<void> | undefined

  async function write(): Promise<void> {
    while (sent || waiting.size > 0) {
      if (!sent) {
        sent = waiting
        waiting = new Map()
        batch += 1
      }
      await addTraffic(catalog, id, batch, sent)
      sent = undefined
    }
  }

  return {
    take(counted) {
      for (const [endpointId, { toClients, fromClients, connections }] of counted) {
        const before = waiting.get(endpointId) ?? { toClients: 0, fromClients: 0, connections: 0 }
        waiting.set(endpointId, {
          toClients: before.toClients + toClients,
          fromClients: before.fromClients + fromClients,
          connections: before.connections + connections,
        })
      }
    },
    write() {
      writing ??= write().finally(() => (writing = undefined))
      return writing
    },
  }
}
