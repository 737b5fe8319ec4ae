import type { Registry } from 'prom-client'
import { addGauge } from './gauge.ts'

/** The copies that a worker waits for. */
interface Copies {
  readonly count: number
  readonly copiedBytes: number
  readonly leftBytes: number
}

/** Adds gauges of the copies that fill new branches. */
export function createCopyMetrics(registry: Registry, read: () => Promise<Copies>): void {
  const running = { name: 'neap_copies_running', help: 'Copies into new branches that this worker waits for.' }
  const bytes = {
    name: 'neap_copy_bytes',
    help: 'Bytes of those copies, once they have lasted half a second, by state: copied, or left to copy.',
    label: 'state',
  }
  addGauge(registry, running, async () => (await read()).count)
  addGauge(registry, bytes, async () => {
    const { copiedBytes, leftBytes } = await read()
    return { copied: copiedBytes, left: leftBytes }
  })
}
