import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, scryptSync } from 'node:crypto'
import { UsageError } from '../errors.ts'

const SALT_BYTES = 16
const IV_BYTES = 12
const TAG_BYTES = 16

/** The secret from which each sealed file derives a key of its own. */
export type SealingKey = Buffer

/** Slow, for passphrases that people choose: others may read the repository. */
export const sealingKey = (passphrase: string): SealingKey =>
  scryptSync(passphrase, 'neap repository', 32, { N: 2 ** 15, r: 8, p: 1, maxmem: 2 ** 26 })

const keyOf = (key: SealingKey, salt: Buffer): Buffer =>
  Buffer.from(hkdfSync('sha256', key, salt, 'neap sealed file', 32))

/** Seals a file (AES-256-GCM). It opens only by the same name. */
export function seal(key: SealingKey, content: Buffer, name: string): Buffer {
  const salt = randomBytes(SALT_BYTES)
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', keyOf(key, salt), iv).setAAD(Buffer.from(name))
  const sealed = Buffer.concat([cipher.update(content), cipher.final()])
  return Buffer.concat([salt, iv, cipher.getAuthTag(), sealed])
}

/** Errors: UsageError, if it was sealed by another passphrase or under another name, or has changed. */
export function openSealed(key: SealingKey, sealed: Buffer, name: string): Buffer {
  const salt = sealed.subarray(0, SALT_BYTES)
  const iv = sealed.subarray(SALT_BYTES, SALT_BYTES + IV_BYTES)
  const tag = sealed.subarray(SALT_BYTES + IV_BYTES, SALT_BYTES + IV_BYTES + TAG_BYTES)
  try {
    const decipher = createDecipheriv('aes-256-gcm', keyOf(key, salt), iv).setAAD(Buffer.from(name)).setAuthTag(tag)
    return Buffer.concat([decipher.update(sealed.subarray(SALT_BYTES + IV_BYTES + TAG_BYTES)), decipher.final()])
  } catch {
    throw new UsageError(`${name} in the repository does not open: it was written with another passphrase, or changed.`)
  }
}
