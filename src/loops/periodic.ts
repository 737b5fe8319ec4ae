/** A background loop of a worker. */
export interface Loop {
  /** Starts no new round. Resolves when the current one has ended. */
  stop(): Promise<void>
}

/** Runs `work` now and again `everyMs` after each run has ended, so runs never overlap. */
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
