import { Counter, Histogram, type Registry } from 'prom-client'
import { codeOf } from './error_code.ts'

/** Counts the operations of a worker. */
export interface OperationMetrics {
  /**
   * An operation has ended here.
   * @param seconds since it was first begun
   * @param failure the thrown error, if it was thrown here, and the text for users
   */
  readonly ended: (
    action: string,
    seconds: number,
    failure?: { readonly cause?: unknown; readonly error: string | null },
  ) => void
  /** A step has failed; it may be tried again. */
  readonly stepFailed: (action: string, step: string, error: unknown) => void
}

const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

/** Prefixes of the engine's own reasons, which have no thrown error. */
const REASONS = [
  [/^dependency failed/, 'dependency'],
  [/^not done within/, 'deadline'],
  [/^given up after/, 'attempts'],
] as const

/** @param actions all actions: their series begin at zero, so that a first failure is seen as an increase */
export function createOperationMetrics(registry: Registry, actions: readonly string[]): OperationMetrics {
  const total = new Counter({
    name: 'neap_operations_total',
    help: 'Operations that ended here, by action, status (finished, failed) and kind of error.',
    labelNames: ['action', 'status', 'code'],
    registers: [registry],
  })
  const duration = new Histogram({
    name: 'neap_operation_duration_seconds',
    help: 'From the moment an operation was first begun to its end.',
    labelNames: ['action', 'status'],
    buckets: SECONDS,
    registers: [registry],
  })
  const failures = new Counter({
    name: 'neap_operation_step_failures_total',
    help: 'Steps that failed, whether they are tried again or not, by kind of error.',
    labelNames: ['action', 'step', 'code'],
    registers: [registry],
  })
  for (const action of actions) {
    total.inc({ action, status: 'finished', code: '' }, 0)
    for (const status of ['finished', 'failed']) duration.zero({ action, status })
  }
  return {
    ended(action, seconds, failure) {
      const status = failure ? 'failed' : 'finished'
      total.inc({ action, status, code: failure ? failureCode(failure) : '' })
      duration.observe({ action, status }, seconds)
    },
    stepFailed: (action, step, error) => failures.inc({ action, step, code: codeOf(error) }),
  }
}

function failureCode({ cause, error }: { readonly cause?: unknown; readonly error: string | null }): string {
  const known = REASONS.find(([begins]) => begins.test(error ?? ''))
  return known?.[1] ?? (cause === undefined ? 'unknown' : codeOf(cause))
}
