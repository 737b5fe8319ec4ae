import type { Registry } from 'prom-client'
import { addGauge } from './gauge.ts'

/** The memory of computes in bytes. */
interface Memory {
  readonly anonBytes: number
  readonly cacheBytes: number
}

/** Adds a gauge of the memory of a host's computes; it is left out where the kernel does not count that. */
export function createComputeMetrics(registry: Registry, read: () => Promise<Memory | undefined>): void {
  const memory = {
    name: 'neap_computes_memory_bytes',
    help: 'Memory of the computes of this host, by kind: held, or cache, which the kernel can take back.',
    label: 'kind',
  }
  addGauge(registry, memory, async () => {
    const found = await read().catch(() => undefined)
    return found && { held: found.anonBytes, cache: found.cacheBytes }
  })
}
