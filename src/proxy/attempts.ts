import { setTimeout as sleep } from 'node:timers/promises'
import { ProxyError } from './errors.ts'

/** So many wrong passwords are nobody's business; one is forgotten every second. */
const FREE = 50
const FORGOTTEN_PER_MS = 1 / 1_000
const DELAY_MS = 1_000
/** Who waits for longer than that in one queue is too many. */
const MOST_WAITING = 20
/** Of whoever has not failed for so long that nothing is left to remember. */
const SWEEP_MS = 60_000

/** Slows down who tries password after password. A program that has a wrong one holds up nobody for good who has the right one. */
export interface Attempts {
  /**
   * Waits a while where many have failed for the same role of an endpoint from the same address. Errors: too_many_attempts, where many wait.
   */
  admit(address: string | undefined, endpointId: string, role: string): Promise<void>
  /** A wrong password was sent. */
  failed(address: string | undefined, endpointId: string, role: string): void
  stop(): void
}

interface Known {
  failures: number
  since: number
  waiting: number
}

export function createAttempts(now = () => performance.now(), delayMs = DELAY_MS): Attempts {
  const all = new Map<string, Known>()
  const nameOf = (...parts: readonly (string | undefined)[]): string => parts.join(' ')

  function settle(known: Known): void {
    known.failures = Math.max(0, known.failures - (now() - known.since) * FORGOTTEN_PER_MS)
    known.since = now()
  }

  const timer = setInterval(() => {
    for (const [name, known] of all) {
      settle(known)
      if (known.failures === 0 && known.waiting === 0) all.delete(name)
    }
  }, SWEEP_MS).unref()

  return {
    async admit(address, endpointId, role) {
      const known = all.get(nameOf(address, endpointId, role))
      if (!known) return
      settle(known)
      if (known.failures <= FREE) return
      if (known.waiting >= MOST_WAITING) throw new ProxyError('too_many_attempts')
      known.waiting++
      await sleep(delayMs)
      known.waiting--
    },
    failed(address, endpointId, role) {
      const name = nameOf(address, endpointId, role)
      const known = all.get(name) ?? { failures: 0, since: now(), waiting: 0 }
      all.set(name, known)
      settle(known)
      known.failures++
    },
    stop: () => clearInterval(timer),
  }
}
