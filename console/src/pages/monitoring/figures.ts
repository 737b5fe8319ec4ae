import type { ApiResponse } from '../../../../src/client.ts'

export type Metrics = ApiResponse<'GET /projects/:project_id/endpoints/:endpoint_id/metrics'>['metrics']
export type Point = Metrics['points'][number]
type Wake = Metrics['wakes'][number]

/** A figure of each step; null: not known. */
export type Values = (number | null)[]

/** The figures of a time on one axis. */
export interface Figures {
  /** The beginnings of the steps, in seconds since 1970. */
  readonly times: readonly number[]
  readonly stepSeconds: number
  readonly from: number
  readonly to: number
  /** The times in which no compute ran, in seconds since 1970. */
  readonly asleep: readonly (readonly [from: number, to: number])[]
  /** A figure of each step. While the compute sleeps it keeps the last value. */
  readonly column: (valueOf: (point: Point) => number | undefined) => Values
  /** A figure of the wakes in each step. */
  readonly wakeColumn: (valueOf: (wake: Wake) => number) => Values
  readonly points: readonly Point[]
  readonly scaling: Metrics['scaling']
}

const secondsOf = (at: string): number => Date.parse(at) / 1000

/**
 * @param madeAt when the endpoint was made: before that there was none to be asleep
 * @param runsSince when the compute that runs now began: its latest sample may be some minutes old
 */
export function figuresOf(metrics: Metrics, madeAt: string | undefined, runsSince: string | undefined): Figures {
  const step = metrics.step_seconds
  const [from, to] = [secondsOf(metrics.from), secondsOf(metrics.to)]
  const first = Math.floor(from / step) * step
  const times = Array.from({ length: Math.max(0, Math.ceil((to - first) / step)) }, (_, index) => first + index * step)
  const byTime = new Map(metrics.points.map((point) => [secondsOf(point.at), point]))
  const made = Math.min(madeAt === undefined ? first : secondsOf(madeAt), ...byTime.keys())
  const wakes = new Map(metrics.wakes.map((wake) => [secondsOf(wake.at), wake]))
  return {
    times,
    stepSeconds: step,
    from,
    to,
    asleep: gaps(
      times.filter((time) => time >= made),
      new Set(byTime.keys()),
      step,
      runsSince === undefined ? to : secondsOf(runsSince),
    ),
    column(valueOf) {
      let last: number | null = null
      return times.map((time) => {
        const point = byTime.get(time)
        if (point) last = valueOf(point) ?? null
        return last
      })
    },
    wakeColumn: (valueOf) =>
      times.map((time) => {
        const wake = wakes.get(time)
        return wake ? valueOf(wake) : null
      }),
    points: metrics.points,
    scaling: metrics.scaling,
  }
}

/** A sample that came late leaves no gap. */
const MIN_GAP_SECONDS = 120

/** The times between those with a figure, and after the last of these until `end`. */
function gaps(times: readonly number[], known: ReadonlySet<number>, step: number, end: number) {
  const found: (readonly [number, number])[] = []
  let begin: number | undefined
  for (const time of times) {
    if (!known.has(time)) begin ??= time
    else if (begin !== undefined) {
      if (time - begin >= MIN_GAP_SECONDS || step >= MIN_GAP_SECONDS) found.push([begin, time])
      begin = undefined
    }
  }
  if (begin !== undefined && end - begin >= MIN_GAP_SECONDS) found.push([begin, end])
  return found
}
