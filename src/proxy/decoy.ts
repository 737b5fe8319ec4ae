import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

/*
 * The verifier of a role is asked of the endpoint's compute while one runs, so that a login at such an endpoint is answered later than at
 * one that sleeps. So that the time tells nothing of which endpoints exist, a part of the names that no endpoint has, always the same
 * names, is answered as late as if a compute were asked, the others as early as if there were one that sleeps.
 */

/** Of 256 missing names, so many look as if a compute ran. */
const LOOK_ACTIVE = 192
/** A compute that was asked within that time is asked again over an open session (see compute/verifiers.ts). */
const WARM_MS = 10_000
const MAX_SAMPLES = 64
const MAX_NAMES = 10_000

/** Makes logins at missing endpoints take as long as at endpoints whose compute is asked. */
export interface Decoy {
  /** Notes how long a compute takes to answer. */
  measure<T>(endpointId: string, answer: Promise<T>): Promise<T>
  /** Waits as long as for a compute, where the name is one that looks so. @param begun when the endpoint began to be looked up */
  wait(endpointId: string, begun: number): Promise<void>
}

/** @param secret keeps names that look active from being told from others. */
export function createDecoy(secret: Buffer, now = () => performance.now()): Decoy {
  const samples = { cold: [] as number[], warm: [] as number[] }
  const askedAt = new Map<string, number>()
  function temperature(endpointId: string): 'cold' | 'warm' {
    const last = askedAt.get(endpointId) ?? -Infinity
    askedAt.delete(endpointId)
    askedAt.set(endpointId, now())
    const [oldest] = askedAt.size > MAX_NAMES ? askedAt.keys() : []
    if (oldest !== undefined) askedAt.delete(oldest)
    return now() - last < WARM_MS ? 'warm' : 'cold'
  }

  const looksActive = (endpointId: string): boolean =>
    createHmac('sha256', secret).update('decoy ').update(endpointId).digest().readUInt8(0) < LOOK_ACTIVE

  return {
    async measure(endpointId, answer) {
      const kept = samples[temperature(endpointId)]
      const begun = now()
      const result = await answer
      kept.push(now() - begun)
      if (kept.length > MAX_SAMPLES) kept.shift()
      return result
    },
    async wait(endpointId, begun) {
      if (!looksActive(endpointId)) return
      const kind = temperature(endpointId)
      const kept = samples[kind]
      const sample = kept[Math.floor(Math.random() * kept.length)] ?? 0
      // A compute that was asked lately is asked again while the catalog is.
      const left = kind === 'warm' ? sample - (now() - begun) : sample
      // Timers count in milliseconds.
      if (left > 0.5) await sleep(left)
    },
  }
}
