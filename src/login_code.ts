import { randomBytes } from 'node:crypto'

/** Crockford's base 32: digits and letters that are not taken for one another. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const LENGTH = 8

/** A new code of a login that waits for approval: 40 random bits, as XXXX-XXXX. */
export function newLoginCode(): string {
  const text = [...randomBytes(LENGTH)].map((byte) => ALPHABET[byte % ALPHABET.length]).join('')
  return `${text.slice(0, LENGTH / 2)}-${text.slice(LENGTH / 2)}`
}

/** A code as it was typed, in its one form for hashing; undefined if it cannot be one. */
export function canonicalLoginCode(typed: string): string | undefined {
  const text = typed.toUpperCase().replace(/[-\s]/g, '').replace(/[IL]/g, '1').replaceAll('O', '0')
  return /^[0-9A-HJKMNP-TV-Z]{8}$/.test(text) ? text : undefined
}
