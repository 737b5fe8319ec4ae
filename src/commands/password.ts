import type { Db } from '../catalog/catalog.ts'
import { type Person, setPassword } from '../catalog/person.ts'
import { endOtherSessions } from '../catalog/session.ts'
import { AppError } from '../errors.ts'

/** Longer than a guess can reach, and short enough to hash (NIST SP 800-63B-4, section 3.1.1.2, asks for 8 to 64). */
export const MIN_PASSWORD = 12
export const MAX_PASSWORD = 200

/** Refuses a new password that is short, or that follows from the email. Errors: NOT_ALLOWED. */
export function requireGoodPassword(password: string, { email }: Pick<Person, 'email'>): void {
  if (password.length < MIN_PASSWORD)
    throw new AppError(
      'NOT_ALLOWED',
      `A password has at least ${MIN_PASSWORD} characters. Several words make a good one.`,
    )
  const isOneCharacter = new Set(password).size < 4
  if (isOneCharacter || password.toLowerCase().includes(email.toLowerCase()))
    throw new AppError(
      'NOT_ALLOWED',
      'That password is easily guessed. Several words that do not belong together are not.',
    )
}

/**
 * Stores a new password, and ends the other sessions of the person.
 * @param before the hash that the caller has checked; undefined: there was no password
 * Errors: CONFLICT (the password was changed meanwhile).
 */
export async function changePassword(
  tx: Db,
  personId: string,
  sessionId: number,
  { hash, before }: { readonly hash: string; readonly before: string | undefined },
): Promise<void> {
  if (!(await setPassword(tx, personId, hash, before)))
    throw new AppError('CONFLICT', 'The password was changed meanwhile. Try again with that one.')
  await endOtherSessions(tx, personId, sessionId)
}
