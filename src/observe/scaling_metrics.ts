import { Counter, type Registry } from 'prom-client'

/** Counts the resizes of computes that autoscale. */
export interface ScalingMetrics {
  readonly resized: (reason: string, wasGranted: boolean) => void
}

export function createScalingMetrics(registry: Registry): ScalingMetrics {
  const total = new Counter({
    name: 'neap_compute_resizes_total',
    help: 'Resizes of running computes by this worker, by reason; granted: whether the host had room for all of it.',
    labelNames: ['reason', 'granted'],
    registers: [registry],
  })
  return { resized: (reason, wasGranted) => total.inc({ reason, granted: String(wasGranted) }) }
}
