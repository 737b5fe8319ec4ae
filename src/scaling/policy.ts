/*
 * Decides the size of an autoscaling compute from what the kernel measured, and from nothing else.
 *
 *   up     at once, in one move, when its processes want more CPUs than it has: to those that they ran on or waited
 *          for. A process that waits for a lock, a disk or a client waits for no CPU, and raises nothing.
 *   up     at once, when memory that cannot be reclaimed nears the limit, or pages are evicted that it needs.
 *   down   to the 95th percentile of what it needed in the last `holdSeconds`, without a rise in that time. It doubles,
 *          up to five minutes, with each rise that soon follows a fall.
 *
 * Sizes are in CU: a CPU and 4 GiB of memory each.
 */

/** What a compute used between two looks. */
export interface UseSample {
  readonly seconds: number
  /** CPUs used. */
  readonly used: number
  /** CPUs that its processes ran on or waited for. */
  readonly wanted: number
  /** The part of the time in which its CPU limit stopped it. */
  readonly throttled: number
  /** Memory that cannot be reclaimed. */
  readonly anonBytes: number
  readonly cacheBytes: number
  /** Bytes of its working set that were read again after they had been evicted. */
  readonly refaultBytes: number
  /** The part of the time in which a process waited for memory. */
  readonly memoryStall: number
}

export interface ScalingRange {
  readonly min: number
  readonly max: number
}

export type ScalingReason = 'cpu' | 'memory' | 'cache' | 'less_use'

export interface ScalingState {
  readonly cu: number
  readonly holdSeconds: number
  /** Seconds since the last rise, and since the last fall. */
  readonly sinceRise: number
  readonly sinceFall: number
  /** The last samples, newest last: at least RECENT_SECONDS of them. */
  readonly recent: readonly UseSample[]
  /** What it needed in each second since the last rise, in CU. */
  readonly needs: readonly number[]
  /** The samples of a second that is not over yet. */
  readonly second: readonly UseSample[]
}

export interface ScalingDecision {
  readonly state: ScalingState
  /** Why the size of `state` differs from the one before; absent when it does not. */
  readonly reason?: ScalingReason
}

export const CU_BYTES = 4 * 2 ** 30
const STEP = 0.25
/** The part of its CPUs that a compute may use without another size. */
const HEADROOM = 0.9
const THROTTLED = 0.05
const CPU_SECONDS = 0.5
const STALLED = 0.05
const RECENT_SECONDS = 1
const MEMORY_FULL = 0.85
const MEMORY_AIM = 0.75
const FIRST_HOLD_SECONDS = 10
const MAX_HOLD_SECONDS = 300
const BETWEEN_FALLS_SECONDS = 5
/** A rise this soon after a fall shows that the fall was wrong. */
const REGRET_SECONDS = 60

export const firstState = (cu: number): ScalingState => ({
  cu,
  holdSeconds: FIRST_HOLD_SECONDS,
  sinceRise: 0,
  sinceFall: Infinity,
  recent: [],
  needs: [],
  second: [],
})

/** The state after one more sample, and the reason of a change of size. Pure. */
export function nextSize(before: ScalingState, sample: UseSample, range: ScalingRange): ScalingDecision {
  const state = withSample(before, sample)
  const rise = wantedRise(state, sample)
  if (rise && clamp(rise.cu, range) > state.cu)
    return { state: raised(state, clamp(rise.cu, range)), reason: rise.reason }
  const fall = clamp(Math.max(wantedFall(state) ?? state.cu, heldByMemory(sample)), range)
  if (fall < state.cu) return { state: lowered(state, fall), reason: 'less_use' }
  return { state }
}

function withSample(state: ScalingState, sample: UseSample): ScalingState {
  const recent = lastSeconds([...state.recent, sample], RECENT_SECONDS)
  const second = [...state.second, sample]
  const isOver = lengthOf(second) >= 1
  return {
    ...state,
    sinceRise: state.sinceRise + sample.seconds,
    sinceFall: state.sinceFall + sample.seconds,
    recent,
    second: isOver ? [] : second,
    needs: isOver ? [...state.needs, needOf(second)].slice(-MAX_HOLD_SECONDS) : state.needs,
  }
}

function wantedRise(
  { cu, recent }: ScalingState,
  sample: UseSample,
): { readonly cu: number; readonly reason: ScalingReason } | undefined {
  const latest = lastSeconds(recent, CPU_SECONDS)
  // On a machine without that many CPUs the limit does not stop it, but its processes wait for each other.
  const lacks = ({ throttled, wanted }: UseSample): boolean => throttled > THROTTLED || wanted > cu
  if (lengthOf(latest) >= CPU_SECONDS && latest.every(lacks)) {
    const wanted = roundUp(Math.max(...latest.map((each) => each.wanted)) / HEADROOM)
    if (wanted > cu) return { cu: wanted, reason: 'cpu' }
  }
  if (sample.anonBytes > MEMORY_FULL * cu * CU_BYTES) return { cu: heldByMemory(sample), reason: 'memory' }
  if (lengthOf(recent) >= RECENT_SECONDS && mean(recent, ({ memoryStall }) => memoryStall) > STALLED) {
    const missing = recent.reduce((sum, { refaultBytes }) => sum + refaultBytes, 0)
    if (missing > 0) return { cu: roundUp(cu + missing / CU_BYTES), reason: 'cache' }
  }
  return undefined
}

/** The size that sufficed in 95 % of the last seconds, once these are enough. */
function wantedFall({ holdSeconds, sinceRise, sinceFall, needs, recent }: ScalingState): number | undefined {
  if (sinceRise < holdSeconds || sinceFall < BETWEEN_FALLS_SECONDS || needs.length === 0) return undefined
  if (recent.some(({ refaultBytes }) => refaultBytes > 0)) return undefined
  const sorted = needs.slice(-Math.ceil(holdSeconds)).sort((x, y) => x - y)
  return roundUp(sorted[Math.floor(0.95 * (sorted.length - 1))] as number)
}

/** What a second needed, in CU. */
const needOf = (samples: readonly UseSample[]): number => mean(samples, ({ wanted }) => wanted) / HEADROOM

/** The least size that leaves room beside memory that cannot be reclaimed. */
const heldByMemory = ({ anonBytes }: UseSample): number => roundUp(anonBytes / MEMORY_AIM / CU_BYTES)

function raised(state: ScalingState, cu: number): ScalingState {
  const wasWrong = state.sinceFall < REGRET_SECONDS
  const holdSeconds = wasWrong
    ? Math.min(2 * state.holdSeconds, MAX_HOLD_SECONDS)
    : state.sinceRise > MAX_HOLD_SECONDS
      ? FIRST_HOLD_SECONDS
      : state.holdSeconds
  return { ...state, cu, holdSeconds, sinceRise: 0, recent: [], needs: [], second: [] }
}

const lowered = (state: ScalingState, cu: number): ScalingState => ({ ...state, cu, sinceFall: 0, recent: [] })

const clamp = (cu: number, { min, max }: ScalingRange): number => Math.min(Math.max(cu, min), max)
/** To the next multiple of a quarter, but for errors of measurement. */
const roundUp = (cu: number): number => Math.ceil((cu - 0.01) / STEP) * STEP

const lengthOf = (samples: readonly UseSample[]): number => samples.reduce((sum, { seconds }) => sum + seconds, 0)

const mean = (samples: readonly UseSample[], value: (sample: UseSample) => number): number =>
  samples.reduce((sum, sample) => sum + value(sample) * sample.seconds, 0) / lengthOf(samples)

/** The last samples that make up at least so many seconds. */
function lastSeconds(samples: readonly UseSample[], seconds: number): readonly UseSample[] {
  let length = 0
  let first = samples.length
  while (first > 0 && length < seconds) length += (samples[--first] as UseSample).seconds
  return samples.slice(first)
}
