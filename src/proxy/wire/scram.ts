/*
 * SCRAM-SHA-256 (RFC 5802, RFC 7677; Postgres manual, "SASL Authentication") on both sides: as the server of a client,
 * with the verifier of its role, and as a client of the compute, with the ClientKey from the first exchange. The proxy
 * never sees the password.
 *
 *   client ─first▶ proxy ─challenge▶ client ─proof▶ proxy: StoredKey fits, XOR gives ClientKey ─▶ login at the compute
 */
import { randomBytes } from 'node:crypto'

export const SCRAM = 'SCRAM-SHA-256'
export const SCRAM_PLUS = 'SCRAM-SHA-256-PLUS'

/** Bytes of a key, a signature and a proof. */
export const KEY_BYTES = 32
const NONCE_BYTES = 18

/** Sufficient to log in as the role wherever its verifier is the same. */
export interface ScramKeys {
  readonly clientKey: Buffer
  readonly serverKey: Buffer
}

export const newNonce = (): string => randomBytes(NONCE_BYTES).toString('base64')

/** XOR of two byte strings (RFC 5802, section 2.2). */
export const xor = (one: Buffer, other: Buffer): Buffer =>
  Buffer.from(one.map((byte, index) => byte ^ (other[index] ?? 0)))
