/*
 * Limits on the wait for a promise that cannot be cancelled. Its work goes on; a late result is dropped, and a late
 * rejection counts as handled.
 */

/** Settles as the promise does, or resolves to `late` after so many milliseconds. */
export function withTimeout<T, const L>(promise: Promise<T>, ms: number, late: L): Promise<T | L> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms, late)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/**
 * Settles as the promise does, or rejects when the signal aborts first.
 * @param reasonOf returns the reason to reject with, instead of the signal's; called when the signal aborts
 */
export function withSignal<T>(promise: Promise<T>, signal: AbortSignal, reasonOf?: () => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject((reasonOf ? reasonOf() : signal.reason) as Error)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort)
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
