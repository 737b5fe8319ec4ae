import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { AppError } from '../errors.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16
/** The version of texts sealed before keys had generations. */
const FIRST_VERSION = 1
const VERSION = 2

/**
 * Seals a text with AES-256-GCM (NIST SP 800-38D): version (1 byte), generation of the key (4), nonce (12), ciphertext,
 * tag (16).
 * @param generation 8 hexadecimal digits
 * @param context its purpose and owner: the text opens only with the same one
 */
export function seal(key: Buffer, generation: string, text: string, context: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context))
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  const head = Buffer.concat([Buffer.of(VERSION), Buffer.from(generation, 'hex')])
  return Buffer.concat([head, nonce, body, cipher.getAuthTag()])
}

/** The generation of the key of a sealed text; undefined when it was sealed before keys had one. */
export function generationOf(sealed: Buffer): string | undefined {
  if (sealed[0] === FIRST_VERSION) return undefined
  if (sealed[0] !== VERSION) throw new Error('This was not sealed by Neap, or by a newer one')
  return sealed.toString('hex', 1, 5)
}

/** Opens a sealed text. Throws when the key, the context or a single bit differs. */
export function open(key: Buffer, sealed: Buffer, context: string): string {
  const head = generationOf(sealed) === undefined ? 1 : 5
  if (sealed.length < head + NONCE_BYTES + TAG_BYTES) throw new Error('This was not sealed by Neap, or was cut')
  const body = sealed.subarray(head + NONCE_BYTES, -TAG_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(head, head + NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(Buffer.from(context)).setAuthTag(sealed.subarray(-TAG_BYTES))
  return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8')
}

/** A text sealed under a lost key can be replaced, never read. */
export const sealedUnderLostKey = (): AppError =>
  new AppError('NOT_ALLOWED', 'This was encrypted under a key that is lost: reset it to have another.')
