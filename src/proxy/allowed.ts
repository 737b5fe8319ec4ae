import { BlockList, isIP } from 'node:net'

/**
 * Whether a project's `allowed_ips` let an address in: single ones, ranges with a dash between, networks as CIDR (RFC 4632). An empty list
 * lets everybody in; what is no address lets nobody in.
 */
export function isAllowed(address: string | undefined, allowed: readonly string[]): boolean {
  if (allowed.length === 0) return true
  const known = new BlockList()
  for (const entry of allowed) add(known, entry)
  // An IPv4 client of a listener that takes both.
  const plain = (address ?? '').replace(/^::ffff:(?=[\d.]+$)/i, '')
  const version = isIP(plain)
  return version !== 0 && known.check(plain, familyOf(version))
}

function add(list: BlockList, entry: string): void {
  const [, first = '', prefix, last] = /^([^/-]+)(?:\/(\d+)|-([^/-]+))?$/.exec(entry) ?? []
  const family = familyOf(isIP(first))
  try {
    if (prefix !== undefined) list.addSubnet(first, Number(prefix), family)
    else if (last !== undefined) list.addRange(first, last, family)
    else list.addAddress(first, family)
  } catch {
    // The API takes none of these, but for a range that goes backwards.
  }
}

const familyOf = (version: number): 'ipv4' | 'ipv6' => (version === 6 ? 'ipv6' : 'ipv4')
