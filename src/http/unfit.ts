const MAX_DEPTH = 64
/** Values and names of fields in one body, query or path: more than any request has, and too few to cost anybody's time. */
const MAX_VALUES = 2_000

/**
 * Why a parsed request is refused before its schema is looked at: Postgres has no NUL and no half of a surrogate pair in its texts, and
 * a schema is not walked over what is nested too deeply or has too many values. Stops at the first reason; does not recurse.
 */
export function unfitFor(given: unknown): string | undefined {
  let level: unknown[] = [given]
  let values = 0
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return `is nested over ${MAX_DEPTH} levels deep`
    values += level.length
    if (values > MAX_VALUES) return `has over ${MAX_VALUES} values`
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
