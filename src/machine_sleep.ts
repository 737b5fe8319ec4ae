/** The wall clock, and one that stands still while the machine sleeps. */
export interface Clocks {
  readonly wallMs: number
  readonly awakeMs: number
}

/** CLOCK_MONOTONIC, which performance.now() reads, does not advance while a machine sleeps (clock_gettime(2)). */
const readClocks = (): Clocks => ({ wallMs: Date.now(), awakeMs: performance.now() })

/**
 * Returns a function that returns for how many milliseconds this machine has slept since it was called last: so much
 * further went the wall clock, which a step of that clock makes it too.
 */
export function createSleepWatch(read: () => Clocks = readClocks): () => number {
  let before = read()
  return () => {
    const now = read()
    const sleptMs = now.wallMs - before.wallMs - (now.awakeMs - before.awakeMs)
    before = now
    return Math.max(0, sleptMs)
  }
}
