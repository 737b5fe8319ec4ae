import { isIPv6 } from 'node:net'

/** Whose an address is: an IPv4 address stands for itself, an IPv6 one for its /64, which is what one machine is given (RFC 6177). */
export function ownerOf(address = ''): string {
  const plain = address.replace(/^::ffff:(?=[\d.]+$)/i, '')
  if (!isIPv6(plain)) return plain
  const [head = '', tail] = (plain.split('%')[0] as string).split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length)
  const all = [...before, ...Array.from({ length: zeros }, () => '0'), ...after]
  return all
    .slice(0, 4)
    .map((group) => parseInt(group, 16).toString(16))
    .join(':')
}

/** The network that an address is in as far as its owner may choose from it: 24 bits of an IPv4 address, 64 of an IPv6 one. */
export const networkOf = (address: string | undefined): string =>
  ownerOf(address).replace(/^(\d+\.\d+\.\d+)\.\d+$/, '$1')
