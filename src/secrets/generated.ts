import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { base62 } from '../base62.ts'

const KEY_BYTES = 32
const KEY_PREFIX = 'neap_'
const KEY_WIDTH = 43 // characters of 256 bits in base 62
const CHECKSUM_WIDTH = 6 // characters of 32 bits
const PASSWORD_PREFIX = 'npg_'
const PASSWORD_WIDTH = 22 // characters of 128 bits

/** A new API key: `neap_`, 256 random bits and a checksum of both, in base 62; always 54 characters. */
export function newApiKey(): string {
  const key = KEY_PREFIX + base62(randomBytes(KEY_BYTES), KEY_WIDTH)
  return key + checksum(key)
}

/** Whether a text can be an API key: detects a mistyped or truncated one without a catalog query. */
export function isWellFormedApiKey(key: string): boolean {
  if (!/^neap_[0-9A-Za-z]{49}$/.test(key)) return false
  return key.slice(-CHECKSUM_WIDTH) === checksum(key.slice(0, -CHECKSUM_WIDTH))
}

function checksum(text: string): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(crc32(text))
  return base62(bytes, CHECKSUM_WIDTH)
}

/** A new token of a session or a link: 256 random bits in base 62, always 43 characters. */
export function newToken(): string {
  return base62(randomBytes(KEY_BYTES), KEY_WIDTH)
}

export function isWellFormedToken(token: string): boolean {
  return /^[0-9A-Za-z]{43}$/.test(token)
}

/** The stored form of a token. A plain hash is enough for 256 random bits. */
export function tokenHash(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** A new role password: `npg_` and 128 random bits in letters and digits, which need no escaping in a URI. */
export function newPassword(): string {
  return PASSWORD_PREFIX + base62(randomBytes(16), PASSWORD_WIDTH)
}
