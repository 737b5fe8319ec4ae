/**
 * Shares runs of the same work between callers, by key. Callers that come while a run is under way get the result of
 * the next run, which begins after they came and thus sees all that was there before.
 */
export function createSharedRuns<T>(): (key: string, work: () => Promise<T>) => Promise<T> {
  const runs = new Map<string, { readonly running: Promise<T>; next?: Promise<T> }>()

  return (key, work) => {
    const under = runs.get(key)
    if (under) return (under.next ??= under.running.then(begin, begin))
    return begin()

    function begin(): Promise<T> {
      const run = {
        running: work().finally(() => {
          if (runs.get(key) === run && !('next' in run)) runs.delete(key)
        }),
      }
      runs.set(key, run)
      return run.running
    }
  }
}
