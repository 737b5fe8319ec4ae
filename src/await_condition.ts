export interface Condition<State> {
  /** Calls `wake` at each event that may change the state. Resolves when no later event can be missed. */
  subscribe(wake: () => void): Promise<() => void> | (() => void)
  read(): Promise<State> | State
  isMet(state: State): boolean
  /** Ends the wait when it aborts. */
  readonly until: AbortSignal
  /** Reads again after so many milliseconds without an event: some events get lost. Never without it. */
  readonly rereadMs?: number
}

/**
 * Waits until a condition is met, without polling: subscribes first, then reads, then waits for the next event. Returns
 * the state that meets it, or the state when `until` aborted. Errors: those of `subscribe` and `read`.
 */
export async function awaitCondition<State>(condition: Condition<State>): Promise<State> {
  const { until, rereadMs } = condition
  let wake = (): void => {}
  const wakeNow = (): void => wake()
  let unsubscribe: (() => void) | undefined
  until.addEventListener('abort', wakeNow)
  try {
    unsubscribe = await condition.subscribe(wakeNow)
    for (;;) {
      // An event during the reading may have come too late for it.
      const changed = new Promise<void>((resolve) => {
        wake = resolve
      })
      const state = await condition.read()
      if (until.aborted || condition.isMet(state)) return state
      const reread = rereadMs === undefined ? undefined : setTimeout(wakeNow, rereadMs)
      await changed
      clearTimeout(reread)
    }
  } finally {
    unsubscribe?.()
    until.removeEventListener('abort', wakeNow)
  }
}
