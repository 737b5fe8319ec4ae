import type { Db } from '../catalog/catalog.ts'
import { isPasswordStill } from '../catalog/person.ts'
import { insertSession, insertSignInLink, type Session, type SignInMethod, takeSignInLink } from '../catalog/session.ts'
import { AppError } from '../errors.ts'
import { newToken, tokenHash } from '../secrets/generated.ts'

const LINK_MINUTES = 60
const MAX_USER_AGENT = 300

/** Makes a link that signs a person in once, within an hour. */
export async function makeSignInLink(tx: Db, personId: string): Promise<{ token: string; expires_at: string }> {
  const token = newToken()
  return { token, expires_at: await insertSignInLink(tx, personId, tokenHash(token), LINK_MINUTES) }
}

export interface Browser {
  readonly address: string
  readonly userAgent: string
}

export interface SignedInSession {
  readonly session: Session
  readonly token: string
}

/** Begins a session with a new token, never one that the browser sent. */
export async function beginSession(
  tx: Db,
  personId: string,
  method: SignInMethod,
  { address, userAgent }: Browser,
): Promise<SignedInSession> {
  const token = newToken()
  const session = await insertSession(tx, {
    personId,
    method,
    hash: tokenHash(token),
    userAgent: userAgent.slice(0, MAX_USER_AGENT),
    address,
  })
  return { session, token }
}

/** Uses up a sign-in link and begins a session. Errors: UNAUTHENTICATED (the link is unknown, used or expired). */
export async function signInByLink(tx: Db, link: string, browser: Browser): Promise<SignedInSession> {
  const person = await takeSignInLink(tx, tokenHash(link))
  if (!person)
    throw new AppError(
      'UNAUTHENTICATED',
      'The link was used already, or has expired. Make another with: npx neap sign-in',
    )
  return beginSession(tx, person.id, 'link', browser)
}

export const wrongPassword = () =>
  new AppError('UNAUTHENTICATED', 'The email or the password is wrong. Try again, or sign in by a link.')

/** Begins a session by a password that was checked. Errors: UNAUTHENTICATED (it was changed since). */
export async function signInByPassword(
  tx: Db,
  { personId, hash }: { readonly personId: string; readonly hash: string },
  browser: Browser,
): Promise<SignedInSession> {
  if (!(await isPasswordStill(tx, personId, hash))) throw wrongPassword()
  return beginSession(tx, personId, 'password', browser)
}
