import { randomBytes, timingSafeEqual } from 'node:crypto'
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

/**
 * ClientKey and ServerKey of a password, by which a client logs in where this verifier is stored. Returns undefined
 * when the password does not fit it. The password must be printable ASCII, as Neap's are.
 */
export async function keysFor(
  password: string,
  verifier: string,
): Promise<{ readonly clientKey: Buffer; readonly serverKey: Buffer } | undefined> {
  const [, iterations, salt = '', stored = ''] = /^SCRAM-SHA-256\$(\d{1,9}):([^$]+)\$([^:]+):/.exec(verifier) ?? []
  if (iterations === undefined) return undefined
  const salted = await saltPassword(password, Buffer.from(salt, 'base64'), Number(iterations))
  const [clientKey, storedKey] = [clientKeyOf(salted), Buffer.from(stored, 'base64')]
  const own = storedKeyOf(clientKey)
  if (own.length !== storedKey.length || !timingSafeEqual(own, storedKey)) return undefined
  return { clientKey, serverKey: serverKeyOf(salted) }
}
