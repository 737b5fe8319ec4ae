const MOST_LEVELS = 64

/**
 * Why nobody could keep what stands somewhere in there: Postgres has no NUL and no half of a surrogate pair in its texts, and
 * what is nested too deeply cannot be looked through. Does not recurse itself.
 */
export function unfitFor(given: unknown): string | undefined {
  let level: unknown[] = [given]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) return `is nested over ${MOST_LEVELS} levels deep`
    const below: unknown[] = []
    for (const each of level) {
      if (typeof each === 'string' && each.includes('\0')) return 'holds a NUL character; leave it out'
      if (typeof each === 'string' && !each.isWellFormed())
        return 'holds half of a surrogate pair; send whole characters'
      if (typeof each !== 'object' || each === null) continue
      for (const value of Object.values(each)) below.push(value)
      if (!Array.isArray(each)) for (const name of Object.keys(each)) below.push(name)
    }
    level = below
  }
  return undefined
}
