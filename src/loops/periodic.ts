import { createEventLoop, type EventLoop } from '../event_loop.ts'

/** A background loop of a worker. */
export type Loop = Pick<EventLoop, 'stop'>

/** Runs `work` now and again `everyMs` after each run has ended, so runs never overlap. */
export function startPeriodic(everyMs: number, work: () => Promise<void>, onError: (error: unknown) => void): Loop {
  const loop = createEventLoop({
    async look() {
      await work()
      return everyMs
    },
    onError,
    retry: { firstMs: everyMs, maxMs: everyMs },
  })
  loop.wake()
  return loop
}
