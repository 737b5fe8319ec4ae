import type { Duplex } from 'node:stream'
import { saltPassword } from '../../postgres/scram_keys.ts'
import { ClientGone, ProxyError } from '../wire/errors.ts'

/** Concurrent key derivations: half of libuv's threads for blocking work (UV_THREADPOOL_SIZE, 4). */
const MAX_RUNNING = 2
/** Per endpoint. */
const MAX_WAITING = 1_000

/** Sustained budget per endpoint: about a tenth of a core. A login takes 4,096 unless its role says otherwise. */
const ITERATIONS_PER_SECOND = 200_000
/** Burst budget per endpoint. */
const BURST_ITERATIONS = 500_000

/** Derives keys from clear-text passwords, fairly between endpoints: a tenant sets the iterations of its roles. */
export interface Derivations {
  /**
   * Derives SaltedPassword (RFC 5802, section 3), PBKDF2 with SHA-256, in fair order and within the endpoint's budget.
   * Errors: too_many_logins, when too many derivations wait for the same endpoint; ClientGone.
   */
  derive(client: Duplex, endpointId: string, password: string, salt: Buffer, iterations: number): Promise<Buffer>
}

interface Job {
  readonly iterations: number
  readonly run: () => Promise<void>
}

/** The jobs of one endpoint, which run one at a time. */
interface Lane {
  readonly endpointId: string
  readonly jobs: Job[]
  isRunning: boolean
}

/**
 * Weighted fair queueing with iterations as the cost: serves the lane whose next job has the earliest virtual finish
 * time. So a cheap job never waits for a queue of expensive ones, nor for many of another lane. A lane that has used
 * its budget waits even when threads are idle: they share cores with the proxies' other work.
 */
export function createDerivations(now = () => performance.now()): Derivations {
  const lanes = new Map<string, Lane>()
  /** Virtual finish time of the last started job of each lane with work, in iterations. */
  const servedUntil = new Map<Lane, number>()
  let virtualTime = 0
  let running = 0
  const budget = createBudget(now)
  let waking: NodeJS.Timeout | undefined

  const endOf = (lane: Lane, job: Job): number => Math.max(virtualTime, servedUntil.get(lane) ?? 0) + job.iterations

  function nextLane(): Lane | undefined {
    let best: Lane | undefined
    let bestEnd = Infinity
    let soonestMs = Infinity
    for (const lane of lanes.values()) {
      const [job] = lane.jobs
      if (lane.isRunning || !job) continue
      const waitMs = budget.waitMs(lane.endpointId, job.iterations)
      soonestMs = Math.min(soonestMs, waitMs || Infinity)
      if (waitMs > 0 || endOf(lane, job) >= bestEnd) continue
      best = lane
      bestEnd = endOf(lane, job)
    }
    clearTimeout(waking)
    if (soonestMs < Infinity) waking = setTimeout(serve, soonestMs).unref()
    return best
  }

  function serve(): void {
    while (running < MAX_RUNNING) {
      const lane = nextLane()
      const job = lane?.jobs.shift()
      if (!lane || !job) return
      const end = endOf(lane, job)
      servedUntil.set(lane, end)
      virtualTime = end - job.iterations
      budget.take(lane.endpointId, job.iterations)
      lane.isRunning = true
      running++
      void job.run().finally(() => {
        lane.isRunning = false
        running--
        serve()
      })
    }
  }

  return {
    derive(client, endpointId, password, salt, iterations) {
      const lane = lanes.get(endpointId) ?? { endpointId, jobs: [], isRunning: false }
      if (lane.jobs.length >= MAX_WAITING) return Promise.reject(new ProxyError('too_many_logins'))
      lanes.set(endpointId, lane)
      const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
      const run = async (): Promise<void> => {
        try {
          if (client.destroyed) throw new ClientGone('closed before its password was checked')
          resolve(await saltPassword(password, salt, iterations))
        } catch (error) {
          reject(error)
        }
        if (lane.jobs.length > 0) return
        lanes.delete(endpointId)
        servedUntil.delete(lane)
      }
      lane.jobs.push({ iterations, run })
      serve()
      return promise
    },
  }
}

/** A token bucket of iterations per endpoint. Full buckets are dropped. */
function createBudget(now: () => number) {
  /** For each bucket that is not full, the time when it will be. */
  const fullAt = new Map<string, number>()
  const msOf = (iterations: number): number => (iterations / ITERATIONS_PER_SECOND) * 1_000
  const after = (endpointId: string, iterations: number): number =>
    Math.max(fullAt.get(endpointId) ?? 0, now()) + msOf(iterations)

  return {
    /** Milliseconds until the budget suffices. A job larger than the burst waits for a full bucket. */
    waitMs: (endpointId: string, iterations: number): number =>
      Math.max(0, after(endpointId, Math.min(iterations, BURST_ITERATIONS)) - now() - msOf(BURST_ITERATIONS)),
    take(endpointId: string, iterations: number): void {
      const full = after(endpointId, iterations)
      fullAt.delete(endpointId)
      fullAt.set(endpointId, full)
      for (const [oldest, at] of fullAt) {
        if (at > now()) break
        fullAt.delete(oldest)
      }
    },
  }
}
