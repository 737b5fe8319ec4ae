/*
 * Work of a step that may take long: it runs beside the operation, in this worker, while the operation waits without a
 * transaction. A worker that ends takes it along, and the next one begins it anew.
 */

/** A step may ask again once it has done its work, or never, since its operation ended otherwise. */
const KEPT_MS = 600_000

interface LongRun {
  readonly ended: Promise<void>
  outcome?: { readonly error?: Error }
}

const runs = new Map<string, LongRun>()

/**
 * Begins the work of that key, unless it is under way.
 * @returns the promise of its end; undefined once it has succeeded
 * Errors: that of the work, once. The next call begins it again.
 */
export function longRun(key: string, work: () => Promise<void>): Promise<void> | undefined {
  const run = runs.get(key) ?? begin(key, work)
  if (!run.outcome) return run.ended
  if (!run.outcome.error) return undefined
  runs.delete(key)
  throw run.outcome.error
}

function begin(key: string, work: () => Promise<void>): LongRun {
  function end(outcome: NonNullable<LongRun['outcome']>): void {
    run.outcome = outcome
    setTimeout(() => runs.get(key) === run && runs.delete(key), KEPT_MS).unref()
  }
  const run: LongRun = {
    ended: work().then(
      () => end({}),
      (error: unknown) => end({ error: error instanceof Error ? error : new Error(String(error)) }),
    ),
  }
  runs.set(key, run)
  return run
}
