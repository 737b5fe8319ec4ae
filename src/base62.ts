const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** A number, given as big-endian bytes, in base 62, padded with zeros to `width` characters. */
export function base62(bytes: Uint8Array, width: number): string {
  let rest = BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
  let text = ''
  for (; rest > 0n; rest /= 62n) text = DIGITS.charAt(Number(rest % 62n)) + text
  return text.padStart(width, '0')
}
