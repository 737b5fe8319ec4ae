const SHOW_AFTER_MS = 700

/** Tells a person at the terminal what takes its time. */
export interface ProgressReporter {
  readonly say: (line: string) => void
  /** Names the work as soon as it lasts long enough to wonder, and says when it is done. */
  during<T>(what: string, work: Promise<T>): Promise<T>
}

/** Progress on standard error, which leaves standard output to the result. */
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
