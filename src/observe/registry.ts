import { readFileSync } from 'node:fs'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

const PACKAGE = new URL('../../package.json', import.meta.url)

/** How often the event loop's delay is looked at. Ten times as often, as is usual, a process that does nothing takes 0.3 % of a core. */
const LOOP_MS = 100

/** The metrics of one process: what Node says of itself, what was built, and whatever is registered here; each says which part it is of. */
export function createRegistry(part: string): Registry {
  const registry = new Registry()
  registry.setDefaultLabels({ part })
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_MS })
  const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as { version: string }
  const build = new Gauge({
    name: 'neap_build_info',
    help: 'Always 1; the labels say which Neap runs, on which Node.',
    labelNames: ['version', 'node'],
    registers: [registry],
  })
  build.set({ version, node: process.version }, 1)
  return registry
}
