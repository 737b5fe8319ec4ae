import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'

/**
 * A SCRAM-SHA-256 verifier as Postgres stores it (RFC 5802, RFC 7677), for a password of 256 random bits.
 * Iterations only slow down guessing, and nobody guesses 256 bits: one is enough, and each of Neap's own connections is some milliseconds faster.
 */
export function randomPasswordVerifier(password: string): string {
  const salt = randomBytes(16)
  const salted = pbkdf2Sync(password, salt, 1, 32, 'sha256')
  const clientKey = createHmac('sha256', salted).update('Client Key').digest()
  const storedKey = createHash('sha256').update(clientKey).digest('base64')
  const serverKey = createHmac('sha256', salted).update('Server Key').digest('base64')
  return `SCRAM-SHA-256$1:${salt.toString('base64')}$${storedKey}:${serverKey}`
}
