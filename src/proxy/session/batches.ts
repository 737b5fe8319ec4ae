export interface Batches<T, R> {
  /** Processes an item, in one batch with the items added while an earlier batch runs. Errors: those of `work`. */
  add(item: T): Promise<R>
}

/** Runs one batch at a time, each with all items added since the previous batch began. */
export function createBatches<T, R>(work: (items: readonly T[]) => Promise<R>): Batches<T, R> {
  let waiting: T[] = []
  let next: Promise<R> | undefined
  let current: Promise<unknown> = Promise.resolve()

  return {
    add(item) {
      waiting.push(item)
      if (!next) {
        next = current.then(() => {
          const items = waiting
          waiting = []
          next = undefined
          return work(items)
        })
        current = next.catch(() => {})
      }
      return next
    },
  }
}
