import { readFileSync } from 'node:fs'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

const PACKAGE = new URL('../../package.json', import.meta.url)

/** Sampling interval of the event loop's delay. At the usual 10 ms an idle process takes 0.3 % of a core. */
const LOOP_MS = 100

/** The metrics of one process: Node's own, the build, and those registered here, labelled with the part. */
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
