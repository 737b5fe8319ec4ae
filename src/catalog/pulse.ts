/*
 * Tells a catalog that is slow from one that is away without saying so: frozen, or behind a network that swallows packets.
 *
 *   there ──an answer is late──▶ doubted ──a new session is let in──▶ there
 *                                   └──none is──▶ away ──one is──▶ there
 *
 * A statement may well wait for a lock for longer than that; whether anybody is there at all shows at once.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '../errors.ts'

/** An answer that takes longer than this raises doubts. */
const LATE_MS = 2_000

/** No statement lasts so long by what its session allows: that session is gone, and its end was never heard of. */
const LOST_MS = 45_000

const AGAIN_MS = 500

export interface Pulse {
  /** Asks the catalog and waits, unless nobody is there to answer. Errors: UNAVAILABLE then, else what asking throws. */
  during<T>(ask: () => Promise<T>): Promise<T>
  close(): void
}

interface Waiting {
  readonly since: number
  readonly giveUp: () => void
}

/** @param isThere whether a new session is let in */
export function createPulse(isThere: () => Promise<boolean>): Pulse {
  // In the order in which they began.
  const waiting = new Set<Waiting>()
  let isAway = false
  let isClosed = false
  let timer: NodeJS.Timeout | undefined

  async function look(): Promise<void> {
    for (const { since, giveUp } of waiting) if (performance.now() - since > LOST_MS) giveUp()
    const [oldest] = waiting
    const ms = oldest ? oldest.since + LATE_MS - performance.now() : 0
    if (ms > 0) return lookAgain(ms)
    if (oldest && !(await isThere()) && !isClosed) {
      isAway = true
      for (const { giveUp } of waiting) giveUp()
      while (!isClosed && !(await isThere())) await sleep(AGAIN_MS, undefined, { ref: false })
      isAway = false
    }
    lookAgain(LATE_MS)
  }

  function lookAgain(ms: number): void {
    timer = waiting.size === 0 || isClosed ? undefined : setTimeout(() => void look(), ms).unref()
  }

  return {
    during(ask) {
      if (isAway) return Promise.reject(notThere())
      return new Promise((resolve, reject) => {
        const entry: Waiting = {
          since: performance.now(),
          giveUp() {
            waiting.delete(entry)
            reject(notThere())
          },
        }
        waiting.add(entry)
        if (!timer) lookAgain(LATE_MS)
        ask()
          .finally(() => waiting.delete(entry))
          .then(resolve, reject)
      })
    },
    close() {
      isClosed = true
      clearTimeout(timer)
    },
  }
}

const notThere = (): AppError =>
  new AppError('UNAVAILABLE', undefined, { cause: new Error('the catalog does not answer') })
