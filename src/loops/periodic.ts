/** Something that goes on until it is stopped. */
export interface Loop {
  /** Resolves when what it is at has ended; nothing follows. */
  stop(): Promise<void>
}

/** Does `work` now and then every so many milliseconds, never twice at once. */
export function startPeriodic(everyMs: number, work: () => Promise<void>, onError: (error: unknown) => void): Loop {
  let timer: NodeJS.Timeout | undefined
  let stopping = false
  let round: Promise<void>
  const look = (): void => {
    round = work()
      .catch(onError)
      .finally(() => {
        if (!stopping) timer = setTimeout(look, everyMs)
      })
  }
  look()
  return {
    async stop() {
      stopping = true
      clearTimeout(timer)
      await round
    },
  }
}
