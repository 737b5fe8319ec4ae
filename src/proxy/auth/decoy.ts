import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

/*
 * While a compute runs, a role's verifier is read from it, so a login at an active endpoint is answered later than at
 * an idle one. To keep the response time from revealing which endpoints exist, a fixed part of the unknown names is
 * answered as late as an active endpoint, and the others as early as an idle one.
 */

/** Of 256 unknown names, this many are treated as active. */
const LOOK_ACTIVE = 192
/** Within this time a compute is asked again over an open session (see compute_admin/verifiers.ts). */
const WARM_MS = 10_000
const MAX_SAMPLES = 64
const MAX_NAMES = 10_000

/** Makes logins at unknown endpoints take as long as at active endpoints. */
export interface Decoy {
  /** Records how long a compute takes to answer. */
  measure<T>(endpointId: string, answer: Promise<T>): Promise<T>
  /** For a name treated as active, waits as long as a compute takes. @param begun start of the endpoint's lookup */
  wait(endpointId: string, begun: number): Promise<void>
}

/** @param secret keeps clients from computing which names are treated as active */
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
      // A recently asked compute is asked in parallel with the catalog lookup.
      const left = kind === 'warm' ? sample - (now() - begun) : sample
      // Timers have a resolution of one millisecond.
      if (left > 0.5) await sleep(left)
    },
  }
}
