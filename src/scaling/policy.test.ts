import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { CU_BYTES, firstState, nextSize, type ScalingReason, type UseSample, withSize } from './policy.ts'

const RANGE = { min: 1, max: 7 }
const IDLE: UseSample = {
  seconds: 0.25,
  used: 0,
  wanted: 0,
  throttled: 0,
  anonBytes: 0,
  cacheBytes: 0,
  refaultBytes: 0,
  memoryStall: 0,
}

/** Runs the policy on a load: the samples of each quarter of a second, given the size at that time. */
function run(load: (at: number, cu: number) => Partial<UseSample>, seconds: number) {
  let state = firstState(RANGE.min)
  const changes: { at: number; cu: number; reason: ScalingReason | undefined }[] = []
  let throttled = 0
  let cuSeconds = 0
  for (let at = 0; at < seconds; at += 0.25) {
    const sample = { ...IDLE, ...load(at, state.cu) }
    if (sample.throttled > 0.05) throttled += 0.25
    cuSeconds += 0.25 * state.cu
    const next = nextSize(state, sample, RANGE)
    state = next.state
    if (next.reason) changes.push({ at: at + 0.25, cu: state.cu, reason: next.reason })
  }
  return { changes, state, throttled, cuSeconds }
}

/** So many processes that want a CPU all the time. */
const runnable = (count: number, cu: number): Partial<UseSample> => ({
  used: Math.min(count, cu),
  wanted: count,
  throttled: count > cu ? 0.9 : 0,
})

test('four runnable processes have four CPUs within a second, in one move', () => {
  const { changes } = run((at, cu) => (at < 1 ? {} : runnable(4, cu)), 20)
  deepEqual(changes, [{ at: 1.75, cu: 4, reason: 'cpu' }])
})

test('a size above the CPUs of a busy host does not swing', () => {
  // Two CPUs for between 4 and 8 runnable processes, and other work that takes up to half a CPU.
  const { changes } = run((at, cu) => {
    const count = 6 + 2 * Math.sin(at)
    const free = 1.75 + 0.25 * Math.cos(at / 3)
    return { used: Math.min(cu, free), wanted: count, throttled: cu < free ? 0.9 : 0 }
  }, 300)
  equal(changes[0]?.reason, 'cpu')
  ok(changes.length <= 2, JSON.stringify(changes))
})

test('a busy host raises no size whose limit is not reached', () => {
  deepEqual(run(() => ({ used: 0.4, wanted: 3 }), 60).changes, [])
})

test('a size never exceeds its upper limit', () => {
  equal(run((_, cu) => runnable(30, cu), 5).state.cu, 7)
})

test('processes that wait for a lock, a disk or a client raise nothing', () => {
  deepEqual(run(() => ({ used: 0.05, wanted: 0.05 }), 60).changes, [])
})

test('a load that ends is followed by a fall', () => {
  const { changes } = run((at, cu) => runnable(at < 30 ? 4 : 0, cu), 60)
  const [rise, ...falls] = changes
  deepEqual(rise, { at: 0.75, cu: 4, reason: 'cpu' })
  ok(falls.length <= 2, JSON.stringify(changes))
  const last = falls.at(-1)
  ok(last?.cu === 1 && last.at <= 37, JSON.stringify(changes))
})

test('a fall that is followed by a rise makes the next ones leave more room', () => {
  // Between 2 and 3 CPUs, changing every eight seconds.
  const { changes } = run((at, cu) => runnable(at % 16 < 8 ? 2 : 3, cu), 600)
  // Without it there are two changes in each of 37 turns; with it one more fall is tried every two minutes.
  ok(changes.length > 4 && changes.length < 25, JSON.stringify(changes))
})

test('a load that stays the same changes nothing after the first second', () => {
  deepEqual(run((_, cu) => runnable(2, cu), 900).changes, [{ at: 0.75, cu: 2, reason: 'cpu' }])
})

test('memory that cannot be reclaimed raises the size at once, and holds it', () => {
  const used = 3.6 * 2 ** 30
  const { changes } = run((at) => ({ anonBytes: at < 5 ? 0 : used }), 400)
  deepEqual(changes, [{ at: 5.25, cu: 1.25, reason: 'memory' }])
})

test('a size never falls below memory in use', () => {
  const { state } = run((at, cu) => ({ ...runnable(at < 5 ? 6 : 0, cu), anonBytes: 2 * CU_BYTES }), 400)
  equal(state.cu, 2.75)
})

test('memory follows a fall five minutes later', () => {
  const falls = run((at, cu) => runnable(at < 5 ? 4 : 0, cu), 300).state
  deepEqual([falls.cu, falls.memoryCu], [1, 4])
  const later = run((at, cu) => runnable(at < 5 ? 4 : 0, cu), 330).state
  deepEqual([later.cu, later.memoryCu], [1, 1])
})

test('pages that are evicted and needed again raise the size', () => {
  const { changes } = run((at, cu) => (at > 2 && cu < 2 ? { memoryStall: 0.3, refaultBytes: CU_BYTES / 8 } : {}), 10)
  equal(changes[0]?.reason, 'cache')
  ok((changes[0]?.at ?? 9) <= 3.5)
  ok((changes.at(-1)?.cu ?? 0) >= 1.5)
})

test('a size that was changed by a request has its memory at once', () => {
  deepEqual(withSize(firstState(1), 4), { ...firstState(1), cu: 4, memoryCu: 4 })
  equal(withSize({ ...firstState(1), memoryCu: 6 }, 4).memoryCu, 6)
})
