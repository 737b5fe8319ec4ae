/** Token buckets by name. Memory is bounded: drops full buckets, and above a limit the least recently used one. */
export interface TokenBuckets {
  /** Takes a token. Returns false if there is none. */
  take(name: string): boolean
}

const MAX_BUCKETS = 20_000

/** @param burst tokens of a full bucket @param perSecond tokens refilled per second */
export function createTokenBuckets(burst: number, perSecond: number, now = () => performance.now()): TokenBuckets {
  /** For each bucket that is not full, the time when it will be. */
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
