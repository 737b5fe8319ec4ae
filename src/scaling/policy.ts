/*
 * Decides the size of an autoscaling compute from what the kernel measured, and from nothing else.
 *
 *   up     at once and in one move, when its processes want more CPUs than it has: to those that they ran on or waited
 *          for. A process that waits for a lock, a disk or a client waits for no CPU, and raises nothing; nor does one
 *          that waits for a CPU of a busy host while the compute has not reached its limit.
 *   up     at once, when memory that cannot be reclaimed nears the limit, or pages are evicted that it needs.
 *   down   to what its processes used and wanted in the last three seconds: a rise takes less than a second, so a fall
 *          that proves wrong costs little. Each that does makes the next one leave more room, up to twice what it used.
 *          Memory follows five minutes later, since pages that were evicted come back slowly.
 *
 * Sizes are in CU: a CPU and 4 GiB of memory each. bench/autoscale.ts measures the constants on eight loads.
 */

import { MIB_PER_CU } from '../size.ts'

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
  /** The size by which its memory is limited: the largest of the last five minutes. */
  readonly memoryCu: number
  /** How many times what it needed a fall leaves. */
  readonly margin: number
  /** Seconds since the last rise, since the last fall, and since its memory was last limited by `cu`. */
  readonly sinceRise: number
  readonly sinceFall: number
  readonly sinceMemory: number
  /** The last samples, newest last: at least RECENT_SECONDS of them. */
  readonly recent: readonly UseSample[]
}

export interface ScalingDecision {
  readonly state: ScalingState
  /** Why the size of `state` differs from the one before; absent when it does not. */
  readonly reason?: ScalingReason
}

export const CU_BYTES = MIB_PER_CU * 2 ** 20
const STEP = 0.25
/** A rise takes so many more CPUs than it has, wanted in each sample of so many seconds while its limit stopped it. */
const LACKING = 1.25
const LACKING_SECONDS = 0.75
const LIMITED = 0.05
const STALLED = 0.05
const STALLED_SECONDS = 1
const MEMORY_FULL = 0.85
const MEMORY_AIM = 0.75
const HOLD_SECONDS = 3
const BETWEEN_FALLS_SECONDS = 2
/** A fall leaves at most this part of the size. */
const WORTHWHILE = 0.85
/** A rise this soon after a fall shows that the fall went too far. */
const REGRET_SECONDS = 20
const MARGIN_GROWTH = 1.15
const MAX_MARGIN = 2
/** Seconds without a rise that undo one growth of the margin. */
const CALM_SECONDS = 60
const MEMORY_HOLD_SECONDS = 300

export const firstState = (cu: number): ScalingState => ({
  cu,
  memoryCu: cu,
  margin: 1,
  sinceRise: 0,
  sinceFall: Infinity,
  sinceMemory: 0,
  recent: [],
})

/** The state of a compute that has another size: its memory is never less than that of the size. */
export const withSize = (state: ScalingState, cu: number): ScalingState => ({
  ...state,
  cu,
  memoryCu: Math.max(cu, state.memoryCu),
})

/** The state after one more sample, and the reason of a change of size. Pure. */
export function nextSize(before: ScalingState, sample: UseSample, range: ScalingRange): ScalingDecision {
  const state = withMemory(withSample(before, sample), sample)
  const rise = wantedRise(state, sample)
  const larger = clamp(rise?.cu ?? 0, range)
  if (rise && larger > state.cu) return { state: raised(state, larger), reason: rise.reason }
  const held = Math.max(...state.recent.map(heldByMemory))
  const smaller = clamp(Math.max(wantedFall(state) ?? state.cu, held), range)
  if (smaller <= WORTHWHILE * state.cu) return { state: { ...state, cu: smaller, sinceFall: 0 }, reason: 'less_use' }
  return { state }
}

function withSample(state: ScalingState, sample: UseSample): ScalingState {
  return {
    ...state,
    margin: state.sinceRise < CALM_SECONDS ? state.margin : calmer(state.margin, sample.seconds),
    sinceRise: state.sinceRise + sample.seconds,
    sinceFall: state.sinceFall + sample.seconds,
    sinceMemory: state.memoryCu === state.cu ? 0 : state.sinceMemory + sample.seconds,
    recent: lastSeconds([...state.recent, sample], HOLD_SECONDS),
  }
}

/** Lets the memory follow the size, unless processes wait for pages that were evicted. */
function withMemory(state: ScalingState, { memoryStall }: UseSample): ScalingState {
  if (state.sinceMemory < MEMORY_HOLD_SECONDS || memoryStall > STALLED) return state
  return { ...state, memoryCu: state.cu }
}

function raised(state: ScalingState, cu: number): ScalingState {
  const regrets = state.sinceFall < REGRET_SECONDS
  const margin = regrets ? Math.min(state.margin * MARGIN_GROWTH, MAX_MARGIN) : state.margin
  return { ...withSize(state, cu), margin, sinceRise: 0, recent: [] }
}

function wantedRise(
  { cu, memoryCu, recent }: ScalingState,
  sample: UseSample,
): { readonly cu: number; readonly reason: ScalingReason } | undefined {
  const latest = lastSeconds(recent, LACKING_SECONDS)
  const lacks = ({ wanted, throttled }: UseSample) => wanted > LACKING * cu && throttled > LIMITED
  if (lengthOf(latest) >= LACKING_SECONDS && latest.every(lacks))
    return { cu: roundUp(mean(latest, ({ wanted }) => wanted)), reason: 'cpu' }
  if (sample.anonBytes > MEMORY_FULL * memoryCu * CU_BYTES) return { cu: heldByMemory(sample), reason: 'memory' }
  const stalled = lastSeconds(recent, STALLED_SECONDS)
  if (lengthOf(stalled) >= STALLED_SECONDS && mean(stalled, ({ memoryStall }) => memoryStall) > STALLED) {
    const missing = stalled.reduce((sum, { refaultBytes }) => sum + refaultBytes, 0)
    if (missing > 0) return { cu: roundUp(memoryCu + missing / CU_BYTES), reason: 'cache' }
  }
  return undefined
}

/** What it used, with a margin, or wanted in the last three seconds, once these are over. */
function wantedFall({ sinceRise, sinceFall, recent, margin }: ScalingState): number | undefined {
  if (sinceRise < HOLD_SECONDS || sinceFall < BETWEEN_FALLS_SECONDS || recent.length === 0) return undefined
  return roundUp(mean(recent, ({ used, wanted }) => Math.max(margin * used, wanted)))
}

const calmer = (margin: number, seconds: number): number =>
  Math.max(1, margin / MARGIN_GROWTH ** (seconds / CALM_SECONDS))

/** The least size that leaves room beside memory that cannot be reclaimed. */
const heldByMemory = ({ anonBytes }: UseSample): number => roundUp(anonBytes / MEMORY_AIM / CU_BYTES)

const clamp = (cu: number, { min, max }: ScalingRange): number => Math.min(Math.max(cu, min), max)

/** To the next multiple of a quarter, but for errors of measurement. */
const roundUp = (cu: number): number => Math.ceil((cu - 0.02) / STEP) * STEP

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
