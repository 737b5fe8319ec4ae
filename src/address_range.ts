import { isIP } from 'node:net'

/** Addresses from `first` to `last`, both included. */
export interface AddressRange {
  readonly first: bigint
  readonly last: bigint
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
export function parseAddress(text: string): bigint | undefined {
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
