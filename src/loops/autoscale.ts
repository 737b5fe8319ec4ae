/*
 * Keeps the computes of this host at their sizes, resizes those that autoscale, and lets light users of the CPUs run
 * before heavy ones. They are read four times a second, from the kernel's counters alone; scaling/ decides. Costs
 * nothing while none runs. A compute that wants more than its host has room for gets that, and asks again.
 *
 *   new ──limited──▶ read, decided, resized …  ──a limit or counter fails──▶ unlimited (limit_error)
 *                          ▲                                                    │
 *                          └──────────────── limited at last ───────────────────┘
 */
import { listSized, type SizedEndpoint, scale, type WantedScaling } from '../catalog/scaling.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import { createScalingMetrics, type ScalingMetrics } from '../observe/scaling_metrics.ts'
import { firstState, nextSize, type ScalingState, type UseSample, withSize } from '../scaling/policy.ts'
import { sampleBetween, type UseReading } from '../scaling/sample.ts'
import { createCpuShares } from './cpu_shares.ts'
import { createLimiter, type Limited, LIMIT_RETRY_MS } from './limiter.ts'
import type { Loop } from './periodic.ts'

const EVERY_MS = 250
/** The time until a compute that got less than it wanted asks again. */
const ASK_AGAIN_MS = 2_000
/** The part of its size from which on it is read how many CPUs its processes wait for. */
const BUSY = 0.5

interface Followed extends Limited {
  state: ScalingState
  reading: UseReading | undefined
  /** By performance.now(): when it may ask for more than it has. */
  askAt: number
}

export async function startAutoscaleLoop(context: WorkerContext): Promise<Loop> {
  const metrics = createScalingMetrics(context.registry)
  const { catalog, computes, hostId, log } = context
  // Where computes cannot be limited, they only ask for the room that they lack: each start has recorded why.
  const canLimit = (await computes.whyNoLimits()) === undefined
  const shareCpus = createCpuShares(context)
  const followed = new Map<string, Followed>()
  /** The endpoints that may have another compute or size; undefined: all. */
  let changed: Set<string> | undefined
  /** Whether the next round begins within EVERY_MS. */
  let isPolling = false

  const loop = createEventLoop({
    async look() {
      await followChanged()
      for (const each of followed.values()) await lookAt(each)
      if (!canLimit) return [...followed.values()].some(wantsMore) ? ASK_AGAIN_MS : undefined
      await shareCpus([...followed.values()].map(({ endpoint }) => endpoint))
      isPolling = followed.size > 1 || [...followed.values()].some(isWatched)
      if (isPolling) return EVERY_MS
      return [...followed.values()].some(({ limitAt }) => limitAt !== undefined) ? LIMIT_RETRY_MS : undefined
    },
    onError: (error) => log.warn({ err: error }, 'could not list the computes that may be resized'),
  })

  async function followChanged(): Promise<void> {
    const ids = changed && [...changed]
    if (ids?.length === 0) return
    changed = new Set()
    try {
      const found = new Map((await listSized(catalog, hostId, ids)).map((endpoint) => [endpoint.id, endpoint]))
      for (const id of ids ?? followed.keys()) if (!found.has(id)) followed.delete(id)
      for (const endpoint of found.values()) follow(endpoint)
    } catch (error) {
      changed = undefined
      throw error
    }
  }

  const limit = createLimiter(
    context,
    (id) => followed.get(id),
    () => !isPolling && loop.wake(),
  )

  function follow(endpoint: SizedEndpoint): void {
    const known = followed.get(endpoint.id)
    const isKnown = known?.endpoint.compute_id === endpoint.compute_id
    const state = isKnown ? withSize(known.state, endpoint.cu) : firstState(endpoint.cu)
    // A worker that ended between a record and its effect may have left another limit.
    const unknownLimit = isSettled(endpoint) && endpoint.limit_error === null ? undefined : 0
    const isSame = isKnown && known.endpoint.cu === endpoint.cu && known.endpoint.limit_error === endpoint.limit_error
    const limitAt = isSame ? known.limitAt : unknownLimit
    const fresh = { reading: undefined, askAt: 0 }
    followed.set(endpoint.id, { ...(isKnown ? known : fresh), endpoint, state, limitAt })
  }

  async function lookAt(each: Followed): Promise<void> {
    try {
      if (!canLimit) {
        if (wantsMore(each)) await askAgain(context, each, metrics)
        return
      }
      const decides = each.limitAt === undefined && !isSettled(each.endpoint)
      if (decides && !(await decide(context, each, metrics))) changed?.add(each.endpoint.id)
      if (each.limitAt !== undefined && each.limitAt <= performance.now()) limit(each)
    } catch (error) {
      log.debug({ err: error, endpoint: each.endpoint.id }, 'could not read or resize a compute')
      each.limitAt = 0
    }
  }

  const unlisten = await catalog.listen('endpoint', (id) => {
    if (id === undefined) changed = undefined
    else changed?.add(id)
    if (!isPolling) loop.wake()
  })
  loop.wake()
  return {
    stop() {
      unlisten()
      return loop.stop()
    },
  }
}

const wantsMore = ({ endpoint }: Followed): boolean => endpoint.wanted_cu !== null

const isWatched = ({ endpoint, limitAt }: Followed): boolean => limitAt === undefined && !isSettled(endpoint)

/** Whether an endpoint has a fixed size, and its compute has it. */
const isSettled = ({ min_cu, max_cu, wanted_cu }: SizedEndpoint): boolean => min_cu === max_cu && wanted_cu === null

/** Reads a compute and resizes it if need be. Returns false when the endpoint has another compute or size by now. */
async function decide(context: WorkerContext, each: Followed, metrics: ScalingMetrics): Promise<boolean> {
  const { endpoint, reading: before } = each
  const { min_cu: min, max_cu: max, cu } = endpoint
  const reading = await read(context, endpoint, before)
  each.reading = reading
  if (!before) return true
  const mayAsk = each.askAt <= performance.now()
  const sample = sampleBetween(before, reading)
  const { state, reason } = nextSize(each.state, sample, { min, max: mayAsk ? max : cu })
  const known = each.state
  each.state = state
  const wanted = Math.min(Math.max(state.cu, min), max)
  const asks = wanted !== cu || endpoint.wanted_cu !== null
  if (asks && (mayAsk || wanted < cu)) {
    const figures = reason ? figuresOf(sample) : null
    if (!(await resize(context, each, metrics, { wanted_cu: wanted, reason: reason ?? 'request', figures })))
      return false
    // It has less than it wanted, of memory too.
    if (wantsMore(each)) each.state = withSize({ ...each.state, memoryCu: known.memoryCu }, each.endpoint.cu)
  }
  if (each.state.memoryCu !== known.memoryCu || each.endpoint.cu !== cu) each.limitAt = 0
  return true
}

/** Asks for the room that a compute lacks, where none is limited or measured. */
async function askAgain(context: WorkerContext, each: Followed, metrics: ScalingMetrics): Promise<void> {
  const { wanted_cu, min_cu, max_cu } = each.endpoint
  const wanted = Math.min(Math.max(wanted_cu ?? min_cu, min_cu), max_cu)
  await resize(context, each, metrics, { wanted_cu: wanted, reason: 'request', figures: null })
}

/** Records a new size. Returns false when the endpoint has another compute or size by now. */
async function resize(
  { catalog, log }: WorkerContext,
  each: Followed,
  metrics: ScalingMetrics,
  wanted: Pick<WantedScaling, 'wanted_cu' | 'reason' | 'figures'>,
): Promise<boolean> {
  const { id, compute_id, cu: from_cu } = each.endpoint
  const cu = await scale(catalog, { endpoint_id: id, compute_id, from_cu, ...wanted })
  if (cu === undefined) return false
  const wantedBefore = each.endpoint.wanted_cu
  each.state = withSize(each.state, cu)
  each.endpoint = { ...each.endpoint, cu, wanted_cu: cu < wanted.wanted_cu ? wanted.wanted_cu : null }
  if (cu < wanted.wanted_cu) each.askAt = performance.now() + ASK_AGAIN_MS
  if (cu === from_cu && each.endpoint.wanted_cu === wantedBefore) return true
  metrics.resized(wanted.reason, cu >= wanted.wanted_cu)
  log.info({ endpoint: id, compute: compute_id, from: from_cu, to: cu, ...wanted }, 'resized')
  return true
}

async function read(
  { computes }: WorkerContext,
  { compute_id, cu }: SizedEndpoint,
  before?: UseReading,
): Promise<UseReading> {
  const use = await computes.readUse(compute_id)
  const atMs = performance.now()
  const isBusy =
    before === undefined || use.cpuMicroseconds - before.cpuMicroseconds > BUSY * cu * (atMs - before.atMs) * 1000
  return { ...use, atMs, demand: isBusy ? await computes.readDemand(compute_id) : undefined }
}

/** The figures of a record, rounded for people. */
const figuresOf = (sample: UseSample): Record<string, number> => ({
  cpus_used: round(sample.used),
  cpus_wanted: round(sample.wanted),
  throttled: round(sample.throttled),
  anon_bytes: sample.anonBytes,
  cache_bytes: sample.cacheBytes,
  refault_bytes: sample.refaultBytes,
  memory_stall: round(sample.memoryStall),
})

const round = (value: number): number => Math.round(value * 1000) / 1000
