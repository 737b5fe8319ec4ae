import type { Logger } from 'pino'
import type { Catalog } from '../catalog/catalog.ts'
import { setLastActive } from '../catalog/endpoint.ts'
import type { TrafficTable } from './traffic.ts'

const EVERY_MS = 1_000

export interface ActivityWriter {
  /** Writes what was seen since the last time; what cannot be written is kept for the next. */
  write(): Promise<void>
  stop(): Promise<void>
}

/** Writes to the catalog, once a second and only if something passed, when the last byte of each endpoint did. */
export function startActivityWriter(catalog: Catalog, table: TrafficTable, log: Logger): ActivityWriter {
  const unwritten = new Map<string, number>()

  async function write(): Promise<void> {
    for (const [endpointId, ms] of table.takeSeen()) unwritten.set(endpointId, ms)
    if (unwritten.size === 0) return
    const seen = new Map(unwritten)
    for (const endpointId of await setLastActive(catalog, seen)) seen.delete(endpointId)
    for (const [endpointId, ms] of seen) if (unwritten.get(endpointId) === ms) unwritten.delete(endpointId)
  }

  const writeOrLog = (): Promise<void> =>
    write().catch((error: unknown) => log.debug({ err: error }, 'could not write the activity of endpoints'))
  const timer = setInterval(() => void writeOrLog(), EVERY_MS)

  return {
    write,
    async stop() {
      clearInterval(timer)
      await writeOrLog()
    },
  }
}
