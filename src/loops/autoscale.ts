/*
 * Resizes the computes of this host that autoscale. Each is read four times a second, from the kernel's counters alone;
 * scaling/policy.ts decides. Costs nothing while none runs.
 */
import { listScaled, type ScaledEndpoint, scale } from '../catalog/scaling.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import { firstState, nextSize, type ScalingReason, type ScalingState, type UseSample } from '../scaling/policy.ts'
import { type UseReading, sampleBetween } from '../scaling/sample.ts'
import type { Loop } from './periodic.ts'

const EVERY_MS = 250
/** The part of its size from which on it is asked what a compute waits for. */
const BUSY = 0.5

interface Followed {
  endpoint: ScaledEndpoint
  state: ScalingState
  reading: UseReading | undefined
}

export async function startAutoscaleLoop(context: WorkerContext): Promise<Loop> {
  const { catalog, hostId, log } = context
  const followed = new Map<string, Followed>()
  /** The endpoints that may have another compute or size; undefined: all. */
  let changed: Set<string> | undefined

  const loop = createEventLoop({
    async look() {
      await followChanged()
      for (const each of followed.values()) await lookAt(each)
      return followed.size > 0 ? EVERY_MS : undefined
    },
    onError: (error) => log.warn({ err: error }, 'could not list the computes that autoscale'),
  })

  async function followChanged(): Promise<void> {
    const ids = changed && [...changed]
    if (ids?.length === 0) return
    changed = new Set()
    try {
      const found = new Map((await listScaled(catalog, hostId, ids)).map((endpoint) => [endpoint.id, endpoint]))
      for (const id of ids ?? followed.keys()) if (!found.has(id)) followed.delete(id)
      for (const endpoint of found.values()) follow(endpoint)
    } catch (error) {
      changed = undefined
      throw error
    }
  }

  function follow(endpoint: ScaledEndpoint): void {
    const known = followed.get(endpoint.id)
    if (known?.endpoint.compute_id !== endpoint.compute_id)
      followed.set(endpoint.id, { endpoint, state: firstState(endpoint.cu), reading: undefined })
    else {
      known.endpoint = endpoint
      known.state = { ...known.state, cu: endpoint.cu }
    }
  }

  async function lookAt(each: Followed): Promise<void> {
    const { endpoint, reading: before } = each
    try {
      const reading = await read(context, endpoint, before)
      each.reading = reading
      if (!before) return
      const sample = sampleBetween(before, reading)
      const { state, reason } = nextSize(each.state, sample, { min: endpoint.min_cu, max: endpoint.max_cu })
      each.state = state
      if (reason) await resize(each, reason, sample)
    } catch (error) {
      // It has ended, or its groups have vanished: the crash loop and the next change of the endpoint tell which.
      log.debug({ err: error, endpoint: endpoint.id }, 'could not scale a compute')
    }
  }

  async function resize(each: Followed, reason: ScalingReason, sample: UseSample): Promise<void> {
    const { id, compute_id, cu, min_cu: minCu, max_cu: maxCu } = each.endpoint
    const to = each.state.cu
    const change = { endpoint_id: id, compute_id, from_cu: cu, to_cu: to, reason, figures: figuresOf(sample) }
    if (await scale(catalog, change)) {
      each.endpoint = { ...each.endpoint, cu: to }
      await context.computes.resize(compute_id, { minCu, maxCu, cu: to })
      log.info({ endpoint: id, compute: compute_id, from: cu, to, reason }, 'resized a compute')
    } else (changed ??= new Set()).add(id)
  }

  const unlisten = await catalog.listen('endpoint', (id) => {
    if (id === undefined) changed = undefined
    else changed?.add(id)
    if (followed.size === 0) loop.wake()
  })
  loop.wake()
  return {
    stop() {
      unlisten()
      return loop.stop()
    },
  }
}

async function read({ computes }: WorkerContext, endpoint: ScaledEndpoint, before?: UseReading): Promise<UseReading> {
  const use = await computes.readUse(endpoint.compute_id)
  const atMs = performance.now()
  const isBusy =
    before === undefined ||
    use.cpuMicroseconds - before.cpuMicroseconds > BUSY * endpoint.cu * (atMs - before.atMs) * 1000
  return { ...use, atMs, demand: isBusy ? await computes.readDemand(endpoint.compute_id) : undefined }
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
