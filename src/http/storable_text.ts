const MAX_DEPTH = 64
/** Limit of values and field names in one body, query or path: above any real request, and cheap to check. */
const MAX_VALUES = 2_000

/**
 * Returns why a parsed request is refused before its schema is checked, or undefined. Postgres text cannot hold NUL or
 * half of a surrogate pair, and schemas are not walked over deeply nested requests or over too many values. Stops at
 * the first reason; does not recurse.
 */
export function unstorableReason(given: unknown): string | undefined {
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
