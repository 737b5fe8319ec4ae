import { hkdfSync } from 'node:crypto'
import { base62 } from '../base62.ts'

const KEY_BYTES = 32
const PASSWORD_WIDTH = 43 // characters of 256 bits in base 62

/** A key of 32 bytes for one purpose (HKDF, RFC 5869). */
export const subkey = (master: Buffer, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', master, '', `neap ${purpose}`, KEY_BYTES))

/** A password of 256 bits in letters and digits. @param holder identifies its owner */
export const derivedPassword = (key: Buffer, holder: string): string =>
  base62(Buffer.from(hkdfSync('sha256', key, '', holder, KEY_BYTES)), PASSWORD_WIDTH)

/** A key itself as a password. */
export const keyAsPassword = (key: Buffer): string => base62(key, PASSWORD_WIDTH)
