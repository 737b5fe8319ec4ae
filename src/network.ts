import { BlockList, isIP, isIPv6, SocketAddress } from 'node:net'

/** IPv4 that is not public (IANA's special-purpose address registry), and multicast. */
export const CLOSED_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]
/** Contains all public IPv6; IPv4-mapped, link-local, site-local and multicast addresses lie outside. */
export const GLOBAL_V6 = ['2000::/3']
/** Exceptions within GLOBAL_V6: Teredo and other protocol assignments, documentation, 6to4. */
export const CLOSED_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

/** An address of this machine and a port; 0 takes any that is free. */
export interface ListenAddress {
  readonly host: string
  readonly port: number
  /** Left out if it cannot be bound. */
  readonly isOptional?: boolean
}

/**
 * Returns an address in its shortest form (RFC 5952), an IPv4-mapped one as IPv4, without a zone; undefined if the text
 * is not an address. A port is dropped, as in `192.0.2.1:5555` and `[2001:db8::1]:5555`.
 */
export function plainAddress(text: string): string | undefined {
  const [, bracketed, v4] = /^\[(.+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(text) ?? []
  const [address = ''] = (bracketed ?? v4 ?? text).split('%')
  if (!isIPv6(address)) return isIP(address) === 4 ? address : undefined
  const short = new SocketAddress({ address, family: 'ipv6' }).address
  return short.replace(/^::ffff:(?=[\d.]+$)/, '')
}

/** The client address of an HTTP request from `peer`, by `X-Forwarded-For` as far as trusted proxies state it. */
export function forwardedAddress(
  peer: string | undefined,
  header: string | readonly string[] | undefined,
  trusted: BlockList,
): string | undefined {
  const hops = [header ?? []].flat().flatMap((line) => line.split(','))
  let address = plainAddress(peer ?? '') ?? peer
  // Each proxy appends the address of its client; an entry that is not an address ends the search.
  while (hops.length > 0 && isWithin(address, trusted)) {
    const hop = plainAddress((hops.pop() ?? '').trim())
    if (hop === undefined) break
    address = hop
  }
  return address
}

/**
 * The owner of an address: an IPv4 address itself, and the /64 of an IPv6 address, as one machine is given (RFC 6177).
 */
export function ownerOf(address = ''): string {
  const plain = plainAddress(address) ?? address
  if (!isIPv6(plain)) return plain
  const [head = '', tail] = plain.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length)
  const all = [...before, ...Array.from({ length: zeros }, () => '0'), ...after]
  return all
    .slice(0, 4)
    .map((group) => parseInt(group, 16).toString(16))
    .join(':')
}

/** The network from which an owner may choose its address: 24 bits of an IPv4 address, 64 of an IPv6 one. */
export const networkOf = (address: string | undefined): string =>
  ownerOf(address).replace(/^(\d+\.\d+\.\d+)\.\d+$/, '$1')

// Made when it is asked for: the first IPv6 address takes Node longer than parsing a command.
let loopback: BlockList | undefined

/** Whether an address is of this machine alone (RFC 1122, section 3.2.1.3; RFC 4291, section 2.5.3). */
export const isLoopback = (address: string): boolean =>
  isWithin(address, (loopback ??= cidrList(['127.0.0.0/8', '::1/128'])))

/** Whether an address stands for all addresses of its family. */
export const isWildcard = (address: string): boolean => /^[0:.]+$/.test(address)

/** Networks in CIDR notation, as a list to look addresses up in. */
export function cidrList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [base = '', prefix] = network.split('/')
    list.addSubnet(base, Number(prefix), isIPv6(base) ? 'ipv6' : 'ipv4')
  }
  return list
}

/** Whether an address is in one of the networks; IPv4 also as its mapped IPv6 address. */
export function isWithin(address: string | undefined, list: BlockList): boolean {
  const version = isIP(address ?? '')
  return version !== 0 && list.check(address as string, version === 6 ? 'ipv6' : 'ipv4')
}
