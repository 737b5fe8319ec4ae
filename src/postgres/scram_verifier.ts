import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'

/**
 * The SCRAM-SHA-256 verifier of a password in Postgres' own form (RFC 5802 and 7677; pg_authid in the Postgres manual).
 * The password must be printable ASCII, as Neap's are: any other one would need SASLprep.
 */
export async function scramVerifier(
  password: string,
  { iterations = 4096, salt = randomBytes(16) }: { iterations?: number; salt?: Buffer } = {},
): Promise<string> {
  if (!/^[\x20-\x7e]+$/.test(password)) throw new RangeError('A password must be printable ASCII')
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256')
  const part = (name: string) => createHmac('sha256', salted).update(name).digest()
  const storedKey = createHash('sha256').update(part('Client Key')).digest('base64')
  const serverKey = part('Server Key').toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}
