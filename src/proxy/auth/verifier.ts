import { randomBytes } from 'node:crypto'
import { hmac } from '../../postgres/scram_keys.ts'
import { KEY_BYTES } from '../wire/scram.ts'

/** Postgres' own limit from version 18 on (MAX_ENCRYPTED_PASSWORD_LEN). Before, superusers could store any length. */
const MAX_VERIFIER_CHARACTERS = 512
/** Limit of the salt in the challenge to clients. Postgres makes 16 bytes. */
const MAX_SALT_BYTES = 128

/** A SCRAM verifier (Postgres manual, pg_authid). */
export interface Verifier {
  readonly iterations: number
  readonly salt: Buffer
  readonly storedKey: Buffer
  readonly serverKey: Buffer
}

/** Parses a verifier. Returns undefined for other text (an md5 hash), no iterations, or an oversized salt. */
export function parseVerifier(text: string): Verifier | undefined {
  if (text.length > MAX_VERIFIER_CHARACTERS) return undefined
  const [, iterations, salt = '', stored = '', server = ''] =
    /^SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)$/.exec(text) ?? []
  const [storedKey, serverKey] = [Buffer.from(stored, 'base64'), Buffer.from(server, 'base64')]
  const saltBytes = Buffer.from(salt, 'base64')
  if (storedKey.length !== KEY_BYTES || serverKey.length !== KEY_BYTES) return undefined
  if (Number(iterations) === 0 || saltBytes.length > MAX_SALT_BYTES) return undefined
  return { iterations: Number(iterations), salt: saltBytes, storedKey, serverKey }
}

/**
 * A verifier that no password fits, with a fixed salt per name: a login of an unknown role looks like a wrong password.
 * @param secret keeps clients from telling mock salts from real ones
 */
export function mockVerifier(secret: Buffer, name: string): Verifier {
  const salt = hmac(secret, name).subarray(0, 16)
  return { iterations: 4096, salt, storedKey: randomBytes(KEY_BYTES), serverKey: randomBytes(KEY_BYTES) }
}
