export interface Batches<T, R> {
  /** Does something with an item, together with those that are added while others are under way. Errors: those of doing it. */
  add(item: T): Promise<R>
}

/** Does one batch after the other, each with all that was added since the last began. */
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
