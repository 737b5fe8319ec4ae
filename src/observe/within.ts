/** Waits `ms` milliseconds at most for a promise that never rejects; then returns `late`. */
export async function within<T>(answer: Promise<T>, ms: number, late: T): Promise<T> {
  const { promise: over, resolve } = Promise.withResolvers<T>()
  const timer = setTimeout(() => resolve(late), ms)
  try {
    return await Promise.race([answer, over])
  } finally {
    clearTimeout(timer)
  }
}
