/** Token buckets by name. Memory is bounded: buckets that are full are dropped, and of very many the one that was used least recently. */
export interface Buckets {
  /** Takes a token; false if there is none. */
  take(name: string): boolean
}

const MAX_BUCKETS = 20_000

/** @param burst tokens of a full bucket @param perSecond tokens that one gains in a second */
export function createBuckets(burst: number, perSecond: number, now = () => performance.now()): Buckets {
  /** Of each bucket that is not full: when it will be. */
  const fullAt = new Map<string, number>()
  const tokenMs = 1_000 / perSecond

  return {
    take(name) {
      const next = Math.max(fullAt.get(name) ?? 0, now()) + tokenMs
      if (next - now() > burst * tokenMs) return false
      fullAt.delete(name)
      fullAt.set(name, next)
      for (const [oldest, full] of fullAt) {
        if (full > now() && fullAt.size <= MAX_BUCKETS) break
        fullAt.delete(oldest)
      }
      return true
    },
  }
}
