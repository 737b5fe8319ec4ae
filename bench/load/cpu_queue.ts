/** A compute as a model: jobs share the CPUs that its size gives it, and each uses at most one. */
import type { Job, Trace } from './traces.ts'

/** One tick of a run. */
export interface Tick {
  readonly at: number
  /** Jobs that run or wait for a CPU. */
  readonly runnable: number
  /** Jobs that wait for a disk. */
  readonly onDisk: number
  readonly used: number
}

export interface RunResult {
  readonly cuSeconds: number
  /** The seconds that each job took, in the order of the trace; undefined for those that did not end. */
  readonly took: readonly (number | undefined)[]
  /** Size and runnable jobs in each second, for a picture. */
  readonly perSecond: readonly { readonly cu: number; readonly runnable: number }[]
}

const TICK = 0.01

interface Running {
  readonly index: number
  left: number
}

/** Runs a trace. @param sizeAfter the size in CU after a tick */
export function runQueue(
  { jobs, seconds, sessions }: Trace,
  first: number,
  sizeAfter: (tick: Tick) => number,
): RunResult {
  const took: (number | undefined)[] = Array.from({ length: jobs.length })
  const perSecond: { cu: number; runnable: number }[] = []
  let running: Running[] = []
  let waiting: { readonly index: number; readonly until: number }[] = []
  let [arrived, begun] = [0, 0]
  let cu = first
  let [cuSeconds, runnableSeconds] = [0, 0]
  for (let tick = 1; tick <= seconds / TICK; tick++) {
    const at = tick * TICK
    while (arrived < jobs.length && (jobs[arrived] as Job).at <= at) arrived++
    while (begun < arrived && running.length + waiting.length < sessions) {
      const { at: since, disk = 0, lock = 0 } = jobs[begun] as Job
      waiting.push({ index: begun++, until: Math.max(since, at - TICK) + disk + lock })
    }
    if (waiting.some(({ until }) => until <= at)) {
      for (const { index, until } of waiting) if (until <= at) running.push({ index, left: (jobs[index] as Job).cpu })
      waiting = waiting.filter(({ until }) => until > at)
    }
    const share = running.length === 0 ? 1 : Math.min(1, cu / running.length)
    let [used, runnable] = [0, 0]
    for (const each of running) {
      const ran = Math.min(each.left, share * TICK)
      runnable += ran / (share * TICK)
      each.left -= ran
      used += ran
      if (each.left <= 1e-9) took[each.index] = at - (jobs[each.index] as Job).at
    }
    running = running.filter(({ left }) => left > 1e-9)
    cuSeconds += cu * TICK
    runnableSeconds += runnable * TICK
    if (tick % Math.round(1 / TICK) === 0) {
      perSecond.push({ cu, runnable: runnableSeconds })
      runnableSeconds = 0
    }
    const onDisk = waiting.filter(({ index }) => jobs[index]?.disk).length
    cu = sizeAfter({ at, runnable, onDisk, used: used / TICK })
  }
  return { cuSeconds, took, perSecond }
}

/**
 * The seconds in which the size held jobs up: over a hundredth of those that ended took over twice as long as with the
 * largest size, and 50 ms longer.
 */
export function slowSeconds({ jobs, seconds }: Trace, run: RunResult, largest: RunResult): number {
  const ended = new Map<number, { all: number; slow: number }>()
  for (const [index, { at }] of jobs.entries()) {
    const took = run.took[index] ?? seconds - at
    const second = Math.floor(at + took)
    const counts = ended.get(second) ?? { all: 0, slow: 0 }
    const least = largest.took[index] ?? seconds - at
    counts.all++
    if (took > Math.max(2 * least, least + 0.05)) counts.slow++
    ended.set(second, counts)
  }
  return [...ended.values()].filter(({ all, slow }) => slow > 0.01 * all).length
}
