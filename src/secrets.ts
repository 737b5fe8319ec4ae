import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { base62 } from './base62.ts'
import { readOrCreate } from './durable_file.ts'
import { messageOf, UsageError } from './errors.ts'

const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const SEALED_VERSION = 1
const KEY_PREFIX = 'neap_'
const KEY_WIDTH = 43 // characters of 256 bits in base 62
const CHECKSUM_WIDTH = 6 // characters of 32 bits
const PASSWORD_PREFIX = 'npg_'
const PASSWORD_WIDTH = 22 // characters of 128 bits

/** Passwords of Neap's own roles in a compute, other ones for each store: what is learned at one opens no other. */
export interface StoreSecrets {
  /** Of the superuser neap_admin. */
  readonly admin: (store: string) => string
  /** Of neap_login_reader, which can read the verifiers of roles only. */
  readonly loginReader: (store: string) => string
  /** Of neap_admin in stores, and in the catalog, that were made before each had its own. */
  readonly shared: string
}

/** What the embedded catalog and the templates are called where passwords are derived; branches' stores begin with `br-`. */
export const CATALOG = 'catalog'
export const TEMPLATE = 'template'

/** What Neap does with its master key, each through a subkey of its own. */
export interface Secrets {
  /** Seals a text with AES-256-GCM. It opens again only with the same `context`, which says what it is for and whose. */
  readonly encrypt: (text: string, context: string) => Buffer
  /** Opens what `encrypt` sealed. Throws when the key, the context or a single bit is another. */
  readonly decrypt: (sealed: Buffer, context: string) => string
  /** What the catalog keeps of an API key: HMAC-SHA-256. */
  readonly hashApiKey: (key: string) => Buffer
  /** The password of neap_admin in the embedded catalog. */
  readonly catalogPassword: () => string
  /** Of Neap's own roles in computes. */
  readonly stores: StoreSecrets
  /** Makes the salts that are shown for roles that there are not: the same in every process, and not to be told from real ones. */
  readonly mockSaltKey: () => Buffer
}

/**
 * The secrets that rest on the master key in `file`, which is made when it does not exist: 32 random bytes, mode 0600.
 * Throws UsageError where the file is open to others, is no such key or cannot be read.
 */
export async function loadOrCreateSecrets(file: string): Promise<Secrets> {
  const master = await readOrCreate(file, 0o600, () => randomBytes(KEY_BYTES)).catch((error: unknown) => {
    throw new UsageError(`The master key ${file} cannot be read or made: ${messageOf(error)}`)
  })
  const { mode } = await stat(file)
  if ((mode & 0o077) !== 0) throw new UsageError(`The master key ${file} is open to others: run chmod 600 ${file}`)
  if (master.length !== KEY_BYTES) {
    const found = `The master key ${file} has ${master.length} bytes instead of ${KEY_BYTES}`
    throw new UsageError(`${found}: put it back from a backup, since without it no stored password can be read`)
  }
  return secretsFrom(master)
}

function secretsFrom(master: Buffer): Secrets {
  const subkey = (purpose: string) => Buffer.from(hkdfSync('sha256', master, '', `neap ${purpose}`, KEY_BYTES))
  const sealing = subkey('encrypt v1')
  const hashing = subkey('api key hash v1')
  const stores = storeSecrets({
    admin: subkey('store admin v2'),
    loginReader: subkey('store login reader v2'),
    shared: base62(subkey('admin password v1'), KEY_WIDTH),
  })
  const mockSaltKey = subkey('mock salt v1')
  return {
    encrypt: (text, context) => encrypt(sealing, text, context),
    decrypt: (sealed, context) => decrypt(sealing, sealed, context),
    hashApiKey: (key) => createHmac('sha256', hashing).update(key).digest(),
    catalogPassword: () => stores.admin(CATALOG),
    stores,
    mockSaltKey: () => mockSaltKey,
  }
}

/** Derives the passwords of stores (HKDF, RFC 5869). @param keys 32 bytes for each role */
export function storeSecrets(keys: { admin: Buffer; loginReader: Buffer; shared: string }): StoreSecrets {
  const derive = (key: Buffer) => (store: string) =>
    base62(Buffer.from(hkdfSync('sha256', key, '', store, KEY_BYTES)), KEY_WIDTH)
  return { admin: derive(keys.admin), loginReader: derive(keys.loginReader), shared: keys.shared }
}

// Layout: version (1 byte), nonce (12), ciphertext, tag (16).
function encrypt(key: Buffer, text: string, context: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context))
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.of(SEALED_VERSION), nonce, body, cipher.getAuthTag()])
}

function decrypt(key: Buffer, sealed: Buffer, context: string): string {
  const known = sealed.length >= 1 + NONCE_BYTES + TAG_BYTES && sealed.readUInt8(0) === SEALED_VERSION
  if (!known) throw new Error('This was not sealed by Neap, or by a newer one')
  const body = sealed.subarray(1 + NONCE_BYTES, -TAG_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(1, 1 + NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(Buffer.from(context)).setAuthTag(sealed.subarray(-TAG_BYTES))
  return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8')
}

/** A new API key: `neap_`, 256 random bits and a checksum of both, in base 62; always 54 characters. */
export function newApiKey(): string {
  const key = KEY_PREFIX + base62(randomBytes(KEY_BYTES), KEY_WIDTH)
  return key + checksum(key)
}

/** Whether a text can be an API key: a mistyped or cut one is told apart without a look into the catalog. */
export function isWellFormedApiKey(key: string): boolean {
  if (!/^neap_[0-9A-Za-z]{49}$/.test(key)) return false
  return key.slice(-CHECKSUM_WIDTH) === checksum(key.slice(0, -CHECKSUM_WIDTH))
}

function checksum(text: string): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(crc32(text))
  return base62(bytes, CHECKSUM_WIDTH)
}

/** A new role password: `npg_` and 128 random bits in letters and digits, which need no escaping in a URI. */
export function newPassword(): string {
  return PASSWORD_PREFIX + base62(randomBytes(16), PASSWORD_WIDTH)
}
