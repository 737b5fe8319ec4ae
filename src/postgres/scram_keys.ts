/*
 * The keys of SCRAM-SHA-256 (RFC 5802, section 3; RFC 7677):
 *
 *   password, salt, iterations ─▶ SaltedPassword ─┬─▶ ClientKey ─▶ StoredKey ─┐
 *                                                 └─▶ ServerKey ──────────────┴─▶ verifier
 */
import { createHash, createHmac, createSecretKey, pbkdf2 } from 'node:crypto'
import { promisify } from 'node:util'

const KEY_BYTES = 32

/** SaltedPassword. Its cost grows with the iterations; a thread of libuv's pool bears it, not the main thread. */
export const saltPassword = (password: string, salt: Buffer, iterations: number): Promise<Buffer> =>
  promisify(pbkdf2)(password, salt, iterations, KEY_BYTES, 'sha256')

/** ClientKey of a SaltedPassword: with the ServerKey it suffices to log in. */
export const clientKeyOf = (salted: Buffer): Buffer => hmac(salted, 'Client Key')

/** ServerKey of a SaltedPassword. */
export const serverKeyOf = (salted: Buffer): Buffer => hmac(salted, 'Server Key')

/** StoredKey of a ClientKey: checks a proof, and does not suffice to log in. */
export const storedKeyOf = (clientKey: Buffer): Buffer => createHash('sha256').update(clientKey).digest()

/** HMAC-SHA-256. A KeyObject is the kind of key that Node checks fastest. */
export const hmac = (key: Buffer, text: string): Buffer =>
  createHmac('sha256', createSecretKey(key)).update(text).digest()
