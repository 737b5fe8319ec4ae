import type pg from 'pg'

/** Sessions that a pool opens at once and keeps while they are idle. */
export const KEPT_SESSIONS = 4
/** A further session is opened so often. */
const GROWTH_MS = 20

/**
 * Lets a pool grow slowly. To open a session costs the catalog as much CPU as some fifty short queries: in a crowd of
 * callers most are served sooner by a session that another caller releases.
 * @param max the size at which callers queue in the pool itself
 */
export function createPoolGrowth(pool: pg.Pool, max: number) {
  const waiting = new Set<() => void>()
  let timer: NodeJS.Timeout | undefined

  function admitFirst(): void {
    const [first] = waiting
    if (!first) return
    waiting.delete(first)
    first()
  }

  function grow(): void {
    admitFirst()
    timer = waiting.size > 0 ? setTimeout(grow, GROWTH_MS) : undefined
  }

  pool.on('release', admitFirst)
  return {
    /** Resolves when the caller may take a session that the pool has, or open one. */
    async turn(): Promise<void> {
      if (pool.totalCount < KEPT_SESSIONS || pool.totalCount >= max) return
      await new Promise<void>((resolve) => {
        waiting.add(resolve)
        timer ??= setTimeout(grow, GROWTH_MS)
      })
    },
    waiting: () => waiting.size,
  }
}
