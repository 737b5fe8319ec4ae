import { pbkdf2 } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { promisify } from 'node:util'
import { ClientGone, ProxyError } from './errors.ts'

/** Key derivations at once: half of the threads that libuv has for all that blocks (UV_THREADPOOL_SIZE, 4). */
const MAX_RUNNING = 2
/** Of one endpoint. */
const MAX_WAITING = 1_000

/** Derives keys from passwords that came in clear text, fairly between endpoints: a tenant sets what one costs for its roles. */
export interface Derivations {
  /**
   * SaltedPassword (RFC 5802, section 3), as PBKDF2 with SHA-256, in its turn.
   * Errors: too_many_logins, where very many wait for the same endpoint; ClientGone.
   */
  derive(client: Duplex, endpointId: string, password: string, salt: Buffer, iterations: number): Promise<Buffer>
}

interface Job {
  readonly iterations: number
  readonly run: () => Promise<void>
}

/** The jobs of one endpoint, of which one runs at a time. */
interface Lane {
  readonly jobs: Job[]
  isRunning: boolean
}

/**
 * Weighted fair queueing with iterations as the cost: serves the lane with the earliest next finish if all lanes shared the threads
 * evenly. So a cheap job never waits for a queue of expensive ones, nor for many of another lane.
 */
export function createDerivations(): Derivations {
  const lanes = new Map<string, Lane>()
  /** Until when each lane with work has had its share, in iterations of virtual time. */
  const servedUntil = new Map<Lane, number>()
  let virtualTime = 0
  let running = 0

  const endOf = (lane: Lane, job: Job): number => Math.max(virtualTime, servedUntil.get(lane) ?? 0) + job.iterations

  function nextLane(): Lane | undefined {
    let best: Lane | undefined
    let bestEnd = Infinity
    for (const lane of lanes.values()) {
      const [job] = lane.jobs
      if (lane.isRunning || !job || endOf(lane, job) >= bestEnd) continue
      best = lane
      bestEnd = endOf(lane, job)
    }
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
      const lane = lanes.get(endpointId) ?? { jobs: [], isRunning: false }
      if (lane.jobs.length >= MAX_WAITING) return Promise.reject(new ProxyError('too_many_logins'))
      lanes.set(endpointId, lane)
      const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
      const run = async (): Promise<void> => {
        try {
          if (client.destroyed) throw new ClientGone('closed before its password was checked')
          resolve(await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256'))
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
