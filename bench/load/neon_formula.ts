/**
 * How Neon's autoscaler would size a compute, for comparison: its published rule in its published configuration (facts:
 * neondatabase/autoscaling, September 2025). It sees Linux's load average, which needs a minute to follow, every five
 * seconds; its memory rules are left out, since the traces are of CPUs.
 */
const UNIT_CU = 0.25
const AIM = 0.9
const POLL_SECONDS = 5
/** Linux samples the number of processes that run, or wait for a CPU or a disk, every five seconds. */
const LOAD_SECONDS = 5
const DECAY = Math.exp(-LOAD_SECONDS / 60)

export interface SizedBy {
  /** @param waiting processes that run, or wait for a CPU or a disk, now */
  look(at: number, waiting: number): number
}

export function neonFormula({ min, max }: { readonly min: number; readonly max: number }): SizedBy {
  let load = 0
  let cu = min
  let [nextLoad, nextPoll] = [LOAD_SECONDS, POLL_SECONDS]
  return {
    look(at, waiting) {
      if (at >= nextLoad) {
        load = load * DECAY + waiting * (1 - DECAY)
        nextLoad += LOAD_SECONDS
      }
      if (at >= nextPoll) {
        const units = Math.ceil(Math.round(load / AIM / UNIT_CU))
        cu = Math.min(Math.max(units * UNIT_CU, min), max)
        nextPoll += POLL_SECONDS
      }
      return cu
    },
  }
}
