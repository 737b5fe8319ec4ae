/*
 * A background loop that looks for work when it is woken and when work falls due. Rounds never overlap.
 *
 *   idle ──wake, or the time of the next round──▶ looking ──▶ idle, until the time that the round returned
 *                                                  │   ▲
 *                                                 wake │ the round ended: another one begins at once
 *                                                  ▼   │
 *                                             looking, again wanted
 *
 *   any ──stop──▶ stopped, once the round has ended
 *
 * Any number of wakes during a round cause one more: that round may have read too early to see their cause.
 */
import { type Backoff, backoffMs } from './backoff.ts'

export interface EventLoopOptions {
  /**
   * One round. Returns the milliseconds until the next one, or undefined to wait for a wake.
   * @param isDue whether that time is over since the last round that succeeded, or none has yet; false when a wake came
   * first
   */
  readonly look: (isDue: boolean) => Promise<number | undefined>
  readonly onError: (error: unknown) => void
  /** The time until the next round after failed ones. */
  readonly retry?: Backoff
}

export interface EventLoop {
  /** Begins a round at once, or after the current one. The first call starts the loop. */
  readonly wake: () => void
  /** Begins no more rounds. Resolves when the current one has ended. */
  stop(): Promise<void>
}

const RETRY: Backoff = { firstMs: 1_000, maxMs: 5_000 }

/** Creates a loop that waits for its first wake. */
export function createEventLoop({ look, onError, retry = RETRY }: EventLoopOptions): EventLoop {
  let state: 'idle' | 'looking' | 'again' | 'stopped' = 'idle'
  let isDue = true
  let failures = 0
  let timer: NodeJS.Timeout | undefined
  let round: Promise<void> = Promise.resolve()

  function begin(): void {
    state = 'looking'
    clearTimeout(timer)
    const wasDue = isDue
    isDue = false
    round = run(wasDue)
  }

  async function run(wasDue: boolean): Promise<void> {
    let ms: number | undefined
    try {
      ms = await look(wasDue)
      failures = 0
    } catch (error) {
      isDue = wasDue
      ms = backoffMs(++failures, retry)
      onError(error)
    }
    if (state === 'again') begin()
    else if (state === 'looking') sleep(ms)
  }

  function sleep(ms: number | undefined): void {
    state = 'idle'
    if (ms === undefined) return
    timer = setTimeout(() => {
      isDue = true
      begin()
    }, ms)
  }

  return {
    wake() {
      if (state === 'idle') begin()
      else if (state === 'looking') state = 'again'
    },
    async stop() {
      state = 'stopped'
      clearTimeout(timer)
      await round
    },
  }
}
