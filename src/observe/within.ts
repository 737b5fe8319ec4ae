/** Waits for an answer that never fails, for so many milliseconds at most: `late` instead of one that has not come by then. */
export async function within<T>(answer: Promise<T>, ms: number, late: T): Promise<T> {
  const { promise: over, resolve } = Promise.withResolvers<T>()
  const timer = setTimeout(() => resolve(late), ms)
  try {
    return await Promise.race([answer, over])
  } finally {
    clearTimeout(timer)
  }
}
