import { Counter, type Registry } from 'prom-client'

/** Counts the resizes by the autoscaling loop: by its own decision, or once there is room for the size asked for. */
export interface ScalingMetrics {
  readonly resized: (reason: string, wasGranted: boolean) => void
}

/** They begin at zero, so that a first one is seen as an increase. */
const REASONS = ['request', 'cpu', 'memory', 'cache', 'less_use']

export function createScalingMetrics(registry: Registry): ScalingMetrics {
  const total = new Counter({
    name: 'neap_compute_resizes_total',
    help: 'Resizes that the autoscaling loop made or asked for, by reason; granted: whether the host had room for all.',
    labelNames: ['reason', 'granted'],
    registers: [registry],
  })
  for (const reason of REASONS) for (const granted of ['true', 'false']) total.inc({ reason, granted }, 0)
  return { resized: (reason, wasGranted) => total.inc({ reason, granted: String(wasGranted) }) }
}
