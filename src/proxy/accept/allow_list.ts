import { isIP } from 'node:net'

/** The addresses that may connect to a project, compiled for lookups. */
export interface AllowedAddresses {
  /** True for an empty list, which allows all addresses. */
  readonly isEmpty: boolean
  /** Sorted by `first`, disjoint and not adjacent. */
  readonly ranges: readonly AddressRange[]
}

interface AddressRange {
  readonly first: bigint
  readonly last: bigint
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

/** Parses an entry. Returns undefined for a malformed entry and for a reversed range. */
export function parseRange(entry: string): AddressRange | undefined {
  const [, start = '', prefix, end] = /^([^/-]+)(?:\/(\d{1,3})|-([^/-]+))?$/.exec(entry) ?? []
  const first = parseAddress(start)
  if (first === undefined) return undefined
  if (prefix !== undefined) {
    const free = (isIP(start) === 4 ? 32 : 128) - Number(prefix)
    if (free < 0) return undefined
    const base = (first >> BigInt(free)) << BigInt(free)
    return { first: base, last: base | ((1n << BigInt(free)) - 1n) }
  }
  const last = end === undefined ? first : parseAddress(end)
  return last === undefined || last < first || (end !== undefined && isIP(end) !== isIP(start))
    ? undefined
    : { first, last }
}

/** An address as a 128-bit number; IPv4 as its mapped IPv6 address (RFC 4291, section 2.5.5.2). A zone is ignored. */
function parseAddress(text: string): bigint | undefined {
  const version = isIP(text)
  if (version === 0) return undefined
  if (version === 4) return 0xffff_0000_0000n | parseIpv4(text)
  const [plain = ''] = text.split('%')
  // The last two groups may be written as an IPv4 address.
  const hexadecimal = plain.replace(/[\d.]+$/, (tail) => {
    if (!tail.includes('.')) return tail
    const number = parseIpv4(tail)
    return `${(number >> 16n).toString(16)}:${(number & 0xffffn).toString(16)}`
  })
  const [before = [], after = []] = hexadecimal.split('::').map((half) => (half === '' ? [] : half.split(':')))
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  return BigInt(`0x${[...before, ...zeros, ...after].map((group) => group.padStart(4, '0')).join('')}`)
}

const parseIpv4 = (text: string): bigint => text.split('.').reduce((sum, part) => (sum << 8n) | BigInt(part), 0n)

function merge(ranges: readonly AddressRange[]): AddressRange[] {
  const merged: { first: bigint; last: bigint }[] = []
  for (const { first, last } of ranges.toSorted((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0))) {
    const previous = merged.at(-1)
    if (!previous || first > previous.last + 1n) merged.push({ first, last })
    else if (last > previous.last) previous.last = last
  }
  return merged
}
