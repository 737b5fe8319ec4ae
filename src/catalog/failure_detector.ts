/*
 * Distinguishes a slow catalog from one that is away without notice: frozen, or behind a network that drops packets.
 *
 *   present ──an answer is late──▶ suspected ──a new session is accepted──▶ present
 *                                      └──not accepted──▶ away ──a new session is accepted──▶ present
 *
 * A statement may wait longer than that for a lock; a new session shows at once whether the server responds.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '../errors.ts'

/** An answer later than this makes the catalog suspected. */
const LATE_MS = 2_000

/** Longer than the statement timeout allows: the session is gone, and its end went unnoticed. */
const LOST_MS = 45_000

const AGAIN_MS = 500

export interface FailureDetector {
  /**
   * Runs `ask` and waits for its result, unless the catalog is away. Errors: UNAVAILABLE (away), else those of `ask`.
   */
  during<T>(ask: () => Promise<T>): Promise<T>
  close(): void
}

interface Waiting {
  readonly since: number
  readonly giveUp: () => void
}

/** @param isThere whether the catalog accepts a new session */
export function createFailureDetector(isThere: () => Promise<boolean>): FailureDetector {
  // In order of start.
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
