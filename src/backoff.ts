/** Delays between attempts that grow with each failure. */
export interface Backoff {
  readonly firstMs: number
  readonly maxMs: number
  /** Ratio of two successive delays; 2 if absent. */
  readonly factor?: number
  /** Random deviation in both directions, as a fraction of the delay; 0 if absent. */
  readonly jitter?: number
}

/**
 * The delay in milliseconds after so many failed attempts in a row: `firstMs` after one, `maxMs` at most.
 * @param failures at least 1; Infinity gives the longest delay
 */
export function backoffMs(failures: number, { firstMs, maxMs, factor = 2, jitter = 0 }: Backoff): number {
  return jittered(Math.min(firstMs * factor ** (failures - 1), maxMs), jitter)
}

/** Varies a delay at random by ± `jitter`, a fraction of it, so that many do not retry at the same moment. */
export function jittered(delay: number, jitter: number): number {
  return jitter === 0 ? delay : delay * (1 - jitter + 2 * jitter * Math.random())
}
