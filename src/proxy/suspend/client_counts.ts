import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import { setClients } from '../../catalog/endpoint_clients.ts'
import type { TrafficTable } from './traffic.ts'

const EVERY_MS = 15_000

/**
 * Writes to the catalog how many clients each endpoint has at this proxy, for charts: those that changed, every some
 * seconds.
 * @param numberOf the number under which the proxy is registered; another one has no rows yet
 */
export function startClientCounts(
  catalog: Catalog,
  table: Pick<TrafficTable, 'clients'>,
  numberOf: () => number | undefined,
  log: Logger,
): { stop(): void } {
  let written = new Map<string, number>()
  let writtenAs: number | undefined
  let isWriting = false

  async function write(): Promise<void> {
    const number = numberOf()
    if (number === undefined || isWriting) return
    isWriting = true
    if (number !== writtenAs) written = new Map()
    writtenAs = number
    const now = table.clients()
    const changed = new Map([...now].filter(([id, clients]) => written.get(id) !== clients))
    for (const id of written.keys()) if (!now.has(id)) changed.set(id, 0)
    try {
      await setClients(catalog, number, changed)
      written = now
    } catch (error) {
      // Unknown: each is written again, or removed.
      for (const id of changed.keys()) written.set(id, -1)
      log.debug({ err: error }, 'could not write how many clients endpoints have')
    } finally {
      isWriting = false
    }
  }

  const timer = setInterval(() => void write(), EVERY_MS)
  return { stop: () => clearInterval(timer) }
}
