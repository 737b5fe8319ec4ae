import type { Db } from '../catalog/catalog.ts'
import { insertSession, insertSignInLink, type Session, takeSignInLink } from '../catalog/session.ts'
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

/** Uses up a sign-in link and begins a session. Errors: UNAUTHENTICATED (the link is unknown, used or expired). */
export async function signInByLink(
  tx: Db,
  link: string,
  { address, userAgent }: Browser,
): Promise<{ session: Session; token: string }> {
  const person = await takeSignInLink(tx, tokenHash(link))
  if (!person)
    throw new AppError(
      'UNAUTHENTICATED',
      'The link was used already, or has expired. Make another with: npx neap sign-in',
    )
  const token = newToken()
  const session = await insertSession(tx, {
    personId: person.id,
    hash: tokenHash(token),
    userAgent: userAgent.slice(0, MAX_USER_AGENT),
    address,
  })
  return { session, token }
}
