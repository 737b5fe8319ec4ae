import { type AddressRange, parseAddress, parseRange } from '../../address_range.ts'

/** The addresses that may connect to a project, compiled for lookups. */
export interface AllowedAddresses {
  /** True for an empty list, which allows all addresses. */
  readonly isEmpty: boolean
  /** Sorted by `first`, disjoint and not adjacent. */
  readonly ranges: readonly AddressRange[]
}

/** Limit of cached ranges over all lists. A range takes some 100 bytes. */
const MAX_CACHED_RANGES = 100_000
/** Limit of the cache keys' characters over all lists. */
const MAX_CACHED_CHARACTERS = 8_000_000

export const ALL_ALLOWED: AllowedAddresses = { isEmpty: true, ranges: [] }

const cache = new Map<string, AllowedAddresses>()
let cachedRanges = 0
let cachedCharacters = 0

/**
 * Compiles a list of addresses. Lists in use are cached.
 * @param json an array of single addresses, ranges with a dash between, and networks as CIDR (RFC 4632). Malformed
 * entries allow no address
 */
export function compileAllowed(json: string | null): AllowedAddresses {
  if (json === null || json === '[]') return ALL_ALLOWED
  const known = cache.get(json)
  if (known) {
    cache.delete(json)
    cache.set(json, known)
    return known
  }
  const ranges = (JSON.parse(json) as string[]).flatMap((entry) => parseRange(entry) ?? [])
  const compiled = { isEmpty: false, ranges: merge(ranges) }
  cache.set(json, compiled)
  cachedRanges += compiled.ranges.length
  cachedCharacters += json.length
  for (const [oldest, { ranges: itsRanges }] of cache) {
    if ((cachedRanges <= MAX_CACHED_RANGES && cachedCharacters <= MAX_CACHED_CHARACTERS) || oldest === json) break
    cache.delete(oldest)
    cachedRanges -= itsRanges.length
    cachedCharacters -= oldest.length
  }
  return compiled
}

/** Whether the list allows an address. Text that is not an address is allowed by an empty list only. */
export function isAllowed(address: string | undefined, { isEmpty, ranges }: AllowedAddresses): boolean {
  if (isEmpty) return true
  const number = parseAddress(address ?? '')
  if (number === undefined) return false
  let from = 0
  let to = ranges.length
  while (from < to) {
    const middle = (from + to) >> 1
    if ((ranges[middle] as AddressRange).first <= number) from = middle + 1
    else to = middle
  }
  const nearest = ranges[from - 1]
  return nearest !== undefined && number <= nearest.last
}

function merge(ranges: readonly AddressRange[]): AddressRange[] {
  const merged: { first: bigint; last: bigint }[] = []
  for (const { first, last } of ranges.toSorted((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0))) {
    const previous = merged.at(-1)
    if (!previous || first > previous.last + 1n) merged.push({ first, last })
    else if (last > previous.last) previous.last = last
  }
  return merged
}
