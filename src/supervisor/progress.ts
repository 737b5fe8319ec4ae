const SHOW_AFTER_MS = 700

/** Reports slow work at the terminal. */
export interface ProgressReporter {
  readonly say: (line: string) => void
  /** Names the work after SHOW_AFTER_MS, and then reports its completion. */
  during<T>(what: string, work: Promise<T>): Promise<T>
}

/** Progress on standard error; standard output is left to the result. */
export function terminalProgress(): ProgressReporter {
  const say = (line: string) => void process.stderr.write(`${line}\n`)
  return {
    say,
    async during(what, work) {
      const begun = Date.now()
      let shown = false
      const timer = setTimeout(() => {
        shown = true
        say(`… ${what}`)
      }, SHOW_AFTER_MS)
      try {
        const result = await work
        if (shown) say(`✓ ${what} (${((Date.now() - begun) / 1000).toFixed(1)} s)`)
        return result
      } finally {
        clearTimeout(timer)
      }
    },
  }
}
