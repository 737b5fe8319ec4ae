import { Counter, type Registry } from 'prom-client'

/** Counts the resizes of computes that autoscale. */
export interface ScalingMetrics {
  readonly resized: (reason: string, wasGranted: boolean) => void
}

/** They begin at zero, so that a first one is seen as an increase. */
const REASONS = ['request', 'cpu', 'memory', 'cache', 'less_use']

export function createScalingMetrics(registry: Registry): ScalingMetrics {
  const total = new Counter({
    name: 'neap_compute_resizes_total',
    help: 'Resizes of running computes by this worker, by reason; granted: whether the host had room for all of it.',
    labelNames: ['reason', 'granted'],
    registers: [registry],
  })
  for (const reason of REASONS) total.inc({ reason, granted: 'true' }, 0)
  return { resized: (reason, wasGranted) => total.inc({ reason, granted: String(wasGranted) }) }
}
