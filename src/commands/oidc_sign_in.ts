import { findDefaultAccount } from '../catalog/account.ts'
import type { Db } from '../catalog/catalog.ts'
import { findIdentity, insertIdentity, listIdentities } from '../catalog/identity.ts'
import { insertMember } from '../catalog/member.ts'
import { insertPerson, type MemberRole } from '../catalog/person.ts'
import { newUuid } from '../ids.ts'
import { acceptInvitation } from './invitation.ts'

const MAX_IDENTITIES = 10

/** A provider's claims about a person, checked by its signature; people may choose the email at some providers. */
export interface ProviderClaims {
  readonly issuer: string
  readonly subject: string
  readonly email: string | undefined
  readonly name: string | undefined
}

/** Why a provider's person is not signed in; the console has a text for each. */
export type OidcProblem = 'unknown' | 'email_taken' | 'no_email' | 'taken' | 'too_many' | 'failed'

export class OidcRefusal extends Error {
  override readonly name = 'OidcRefusal'
  readonly problem: OidcProblem

  constructor(problem: OidcProblem, options: { cause?: unknown } = {}) {
    super(`sign-in at the provider refused: ${problem}`, options)
    this.problem = problem
  }
}

/**
 * The person of a provider's claims: the one that is known by issuer and subject, or a new one, where an invitation or
 * the settings admit him. Errors: OidcRefusal, and those of `acceptInvitation`.
 * @param admits the token of an invitation, and the role that the settings give to new persons
 */
export async function personOf(
  tx: Db,
  claims: ProviderClaims,
  admits: { readonly invitation: string | undefined; readonly role: MemberRole | undefined },
): Promise<string> {
  const known = await findIdentity(tx, claims)
  if (known) {
    if (admits.invitation !== undefined) await acceptInvitation(tx, admits.invitation, known.person_id)
    return known.person_id
  }
  if (admits.invitation === undefined && admits.role === undefined) throw new OidcRefusal('unknown')
  const { email, name } = claims
  if (email === undefined) throw new OidcRefusal('no_email')
  const person = await insertPerson(tx, { id: newUuid(), name: (name ?? email).slice(0, 64), email })
  // The email of an existing person gives no access to him: he connects the provider himself.
  if (!person) throw new OidcRefusal('email_taken')
  await connectIdentity(tx, claims, person.id)
  if (admits.invitation !== undefined) await acceptInvitation(tx, admits.invitation, person.id)
  else {
    const first = await findDefaultAccount(tx)
    if (first && admits.role) await insertMember(tx, first.id, person.id, admits.role)
  }
  return person.id
}

/** Lets a person sign in as a provider's person. Errors: OidcRefusal. */
export async function connectIdentity(tx: Db, { issuer, subject }: ProviderClaims, personId: string): Promise<void> {
  if ((await listIdentities(tx, personId)).length >= MAX_IDENTITIES) throw new OidcRefusal('too_many')
  const made = await insertIdentity(tx, { id: newUuid(), issuer, subject, person_id: personId })
  if (!made && (await findIdentity(tx, { issuer, subject }))?.person_id !== personId) throw new OidcRefusal('taken')
}
