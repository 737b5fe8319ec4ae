/*
 * The keys of one login on their way from the API to the proxy that asked for them, sealed as in RFC 9180 (HPKE, base
 * mode) in outline: an ephemeral X25519 key of the sender, HKDF-SHA-256, AES-256-GCM. The proxy makes a key pair for
 * each login and never writes the private key down: a copy of the catalog opens no hand-over, and neither does a proxy
 * with another key.
 */
import {
  createCipheriv,
  createDecipheriv,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from 'node:crypto'

const KEY_BYTES = 32
const TAG_BYTES = 16
/** Each key encrypts one message, so that its nonce need not differ. */
const NONCE = Buffer.alloc(12)

/** The login of the keys: they open for this one alone. */
export interface HandoverContext {
  readonly loginId: string
  readonly endpointId: string
  readonly role: string
}

/** A key pair for one hand-over. */
export interface HandoverKeys {
  /** 32 bytes (RFC 7748). */
  readonly publicKey: Buffer
  /** Opens a text that was sealed to the public key. Throws when the key, the context or a single bit differs. */
  open(sealed: Buffer, context: HandoverContext): Buffer
}

export function createHandoverKeys(): HandoverKeys {
  const { privateKey, publicKey } = generateKeyPairSync('x25519')
  const own = rawOf(publicKey)
  return {
    publicKey: own,
    open(sealed, context) {
      const sender = sealed.subarray(0, KEY_BYTES)
      const shared = diffieHellman({ privateKey, publicKey: keyOf(sender) })
      const decipher = createDecipheriv('aes-256-gcm', derive(shared, sender, own, context), NONCE, {
        authTagLength: TAG_BYTES,
      })
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(sealed.subarray(KEY_BYTES, -TAG_BYTES)), decipher.final()])
    },
  }
}

/** Seals a secret to a public key: the sender's key (32 bytes), ciphertext, tag (16). Errors: not a key of X25519. */
export function sealTo(receiver: Buffer, secret: Buffer, context: HandoverContext): Buffer {
  const { privateKey, publicKey } = generateKeyPairSync('x25519')
  const sender = rawOf(publicKey)
  const shared = diffieHellman({ privateKey, publicKey: keyOf(receiver) })
  const cipher = createCipheriv('aes-256-gcm', derive(shared, sender, receiver, context), NONCE)
  return Buffer.concat([sender, cipher.update(secret), cipher.final(), cipher.getAuthTag()])
}

function derive(shared: Buffer, sender: Buffer, receiver: Buffer, context: HandoverContext): Buffer {
  const { loginId, endpointId, role } = context
  const info = JSON.stringify(['neap key hand-over v1', loginId, endpointId, role])
  return Buffer.from(hkdfSync('sha256', shared, Buffer.concat([sender, receiver]), info, KEY_BYTES))
}

const rawOf = (key: KeyObject): Buffer => Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url')

const keyOf = (raw: Buffer): KeyObject =>
  createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x: raw.toString('base64url') }, format: 'jwk' })
