/** As many files are cloned at once; more would only keep more of them open. Node has 4 threads for them by default. */
const PLACES = 8

/** Clones that run beside each other, in the threads of libuv. */
export interface ClonePool {
  /** Begins a clone once there is a place for it. Errors: that of an earlier clone. */
  add(clone: () => Promise<void>): Promise<void>
  /** Waits for all of them. Errors: the first one. */
  drain(): Promise<void>
}

/**
 * The time of a clone grows with the extents of its file, which the kernel copies one after the other: an aged parent
 * has many, in files that need not wait for each other.
 */
export function clonePool(): ClonePool {
  const running = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | undefined
  const check = (): void => {
    if (failure) throw failure.error
  }
  return {
    async add(clone) {
      while (running.size >= PLACES) await Promise.race(running)
      check()
      const run: Promise<void> = clone()
        .catch((error: unknown) => void (failure ??= { error }))
        .finally(() => running.delete(run))
      running.add(run)
    },
    async drain() {
      while (running.size > 0) await Promise.race(running)
      check()
    },
  }
}
