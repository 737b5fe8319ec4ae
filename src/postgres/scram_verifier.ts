import { randomBytes } from 'node:crypto'
import { clientKeyOf, saltPassword, serverKeyOf, storedKeyOf } from './scram_keys.ts'

/**
 * The SCRAM-SHA-256 verifier of a password in Postgres' own form (RFC 5802 and 7677; pg_authid in the Postgres manual).
 * The password must be printable ASCII, as Neap's are: any other one would need SASLprep.
 */
export async function scramVerifier(
  password: string,
  { iterations = 4096, salt = randomBytes(16) }: { iterations?: number; salt?: Buffer } = {},
): Promise<string> {
  if (!/^[\x20-\x7e]+$/.test(password)) throw new RangeError('A password must be printable ASCII')
  const salted = await saltPassword(password, salt, iterations)
  const storedKey = storedKeyOf(clientKeyOf(salted)).toString('base64')
  const serverKey = serverKeyOf(salted).toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}
