/*
 * SCRAM-SHA-256 (RFC 5802, RFC 7677; Postgres manual, "SASL Authentication") on both sides: as the server of a client,
 * with the verifier of its role, and as a client of the compute, with the ClientKey from the first exchange. The proxy
 * never sees the password.
 *
 *   client ─first▶ proxy ─challenge▶ client ─proof▶ proxy: StoredKey fits, XOR gives ClientKey ─▶ login at the compute
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { hmac, storedKeyOf } from '../../postgres/scram_keys.ts'

export const SCRAM = 'SCRAM-SHA-256'
export const SCRAM_PLUS = 'SCRAM-SHA-256-PLUS'

const KEY_BYTES = 32
const NONCE_BYTES = 18
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

/** Sufficient to log in as the role wherever its verifier is the same. */
export interface ScramKeys {
  readonly clientKey: Buffer
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

/** The server side of one exchange, with messages in order. Methods return undefined for malformed messages. */
export interface ScramServer {
  /** @param mechanism the client's choice */
  challenge(mechanism: string, clientFirst: string): string | undefined
  /** Returns the final message to the client and the keys, or `wrong` for a wrong proof. */
  verify(clientFinal: string): { readonly serverFinal: string; readonly keys: ScramKeys } | 'wrong' | undefined
}

/** @param binding hash of the server's certificate (`tls-server-end-point`, RFC 5929), if it was offered */
export function scramServer(verifier: Verifier, binding: Buffer | undefined, nonce = newNonce()): ScramServer {
  let header = ''
  let clientBare = ''
  let serverFirst = ''
  let bound = Buffer.alloc(0)

  return {
    challenge(mechanism, clientFirst) {
      const [, gs2 = '', flag = '', bare = ''] =
        /^(((?:n|y|p=[A-Za-z0-9.-]+)),(?:a=[^,]*)?,)(.*)$/s.exec(clientFirst) ?? []
      const clientNonce = /^n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+)(?:,|$)/.exec(bare)?.[1]
      if (clientNonce === undefined) return undefined
      const plus = mechanism === SCRAM_PLUS
      if (plus ? flag !== 'p=tls-server-end-point' : flag.startsWith('p=')) return undefined
      // The client supports channel binding but believes that the server does not: a downgrade by a man in the middle.
      if (flag === 'y' && binding) return undefined
      header = gs2
      clientBare = bare
      bound = plus && binding ? Buffer.from(binding) : bound
      serverFirst = `r=${clientNonce}${nonce},s=${verifier.salt.toString('base64')},i=${verifier.iterations}`
      return serverFirst
    },
    verify(clientFinal) {
      const [, withoutProof = '', channel = '', sentNonce = '', proof64 = ''] =
        /^(c=([A-Za-z0-9+/=]+),r=([^,]+)(?:,[^p][^,]*)*),p=([A-Za-z0-9+/=]+)$/.exec(clientFinal) ?? []
      const proof = Buffer.from(proof64, 'base64')
      if (serverFirst === '' || proof.length !== KEY_BYTES) return undefined
      if (!serverFirst.startsWith(`r=${sentNonce},s=`)) return undefined
      const expected = Buffer.concat([Buffer.from(header), bound]).toString('base64')
      if (channel !== expected) return 'wrong'
      const message = `${clientBare},${serverFirst},${withoutProof}`
      const clientKey = xor(proof, hmac(verifier.storedKey, message))
      if (!timingSafeEqual(storedKeyOf(clientKey), verifier.storedKey)) return 'wrong'
      const { serverKey } = verifier
      return { serverFinal: `v=${hmac(serverKey, message).toString('base64')}`, keys: { clientKey, serverKey } }
    },
  }
}

/** The client side, with keys instead of a password. */
export interface ScramClient {
  readonly first: string
  /** Returns the response to the server's challenge. Returns undefined for a malformed challenge. */
  prove(serverFirst: string, keys: ScramKeys): string | undefined
  /** Whether the server has proved that it knows the verifier. */
  isServer(serverFinal: string): boolean
}

export function scramClient(nonce = newNonce()): ScramClient {
  const bare = `n=,r=${nonce}`
  let expected: Buffer | undefined
  return {
    first: `n,,${bare}`,
    prove(serverFirst, { clientKey, serverKey }) {
      const both = /^r=([^,]+),s=[A-Za-z0-9+/=]+,i=\d+$/.exec(serverFirst)?.[1]
      if (both === undefined || !both.startsWith(nonce) || both === nonce) return undefined
      const withoutProof = `c=biws,r=${both}`
      const message = `${bare},${serverFirst},${withoutProof}`
      expected = hmac(serverKey, message)
      const proof = xor(clientKey, hmac(storedKeyOf(clientKey), message))
      return `${withoutProof},p=${proof.toString('base64')}`
    },
    isServer(serverFinal) {
      const signature = Buffer.from(/^v=([A-Za-z0-9+/=]+)/.exec(serverFinal)?.[1] ?? '', 'base64')
      return signature.length === expected?.length && timingSafeEqual(signature, expected)
    },
  }
}

const newNonce = (): string => randomBytes(NONCE_BYTES).toString('base64')
const xor = (one: Buffer, other: Buffer): Buffer => Buffer.from(one.map((byte, index) => byte ^ (other[index] ?? 0)))
