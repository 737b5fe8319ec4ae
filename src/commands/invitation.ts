import { type Account, findAccount, lockAccount } from '../catalog/account.ts'
import type { Db } from '../catalog/catalog.ts'
import {
  findInvitation,
  insertInvitation,
  type Invitation,
  listInvitations,
  takeInvitation,
} from '../catalog/invitation.ts'
import { countMembers, countMemberships, insertMember } from '../catalog/member.ts'
import { insertPerson, type MemberRole, type Person, setPassword } from '../catalog/person.ts'
import { AppError } from '../errors.ts'
import { newUuid } from '../ids.ts'
import { newToken, tokenHash } from '../secrets/generated.ts'
import { MAX_MEMBERSHIPS } from './organization.ts'

const DEFAULT_DAYS = 7
const MAX_DAYS = 30
const DAY_MS = 86_400_000
/** Invitations of one organization that wait. */
const MAX_INVITATIONS = 200
const MAX_MEMBERS = 1_000

export interface AskedInvitation {
  readonly role: MemberRole
  readonly email?: string
  /** RFC 3339. */
  readonly expires_at?: string
}

/** Makes an invitation. Errors: NOT_ALLOWED (its expiry, or too many wait). */
export async function inviteMember(
  tx: Db,
  account: Account,
  invitedBy: string | undefined,
  { role, email = '', expires_at }: AskedInvitation,
): Promise<{ invitation: Invitation; token: string }> {
  const expires = expires_at === undefined ? Date.now() + DEFAULT_DAYS * DAY_MS : Date.parse(expires_at)
  if (!(expires > Date.now() && expires <= Date.now() + MAX_DAYS * DAY_MS))
    throw new AppError('NOT_ALLOWED', `expires_at must lie in the next ${MAX_DAYS} days`)
  await lockAccount(tx, account.id)
  if ((await listInvitations(tx, account.id)).length >= MAX_INVITATIONS)
    throw new AppError(
      'NOT_ALLOWED',
      `The organization has ${MAX_INVITATIONS} open invitations, as many as it may. Revoke some first.`,
    )
  const token = newToken()
  const invitation = await insertInvitation(tx, {
    id: newUuid(),
    account_id: account.id,
    role,
    email,
    invited_by: invitedBy,
    expires_at: new Date(expires).toISOString(),
    hash: tokenHash(token),
  })
  return { invitation, token }
}

const isVoid = () => new AppError('NOT_FOUND', 'The invitation was used or revoked, or has expired. Ask for another.')

/** An invitation by its token, and its organization. Errors: NOT_FOUND. */
export async function lookAtInvitation(db: Db, token: string): Promise<{ invitation: Invitation; account: Account }> {
  return withAccount(db, await findInvitation(db, tokenHash(token)))
}

async function withAccount(
  db: Db,
  invitation: Invitation | undefined,
): Promise<{ invitation: Invitation; account: Account }> {
  const account = invitation && (await findAccount(db, invitation.account_id))
  if (!account) throw isVoid()
  return { invitation, account }
}

/**
 * Uses up an invitation for a person. Errors: NOT_FOUND (the invitation), CONFLICT (a member already), NOT_ALLOWED (as
 * many members or organizations as there may be).
 */
export async function acceptInvitation(tx: Db, token: string, personId: string): Promise<Account> {
  const { invitation, account } = await withAccount(tx, await takeInvitation(tx, tokenHash(token)))
  await lockAccount(tx, account.id)
  if ((await countMembers(tx, account.id)) >= MAX_MEMBERS)
    throw new AppError('NOT_ALLOWED', `The organization has ${MAX_MEMBERS} members, as many as it may.`)
  if ((await countMemberships(tx, personId)) >= MAX_MEMBERSHIPS)
    throw new AppError('NOT_ALLOWED', `You are a member of ${MAX_MEMBERSHIPS} organizations. Leave one first.`)
  if (!(await insertMember(tx, account.id, personId, invitation.role)))
    throw new AppError('CONFLICT', `You are a member of ${account.name} already; the invitation stays for another.`)
  return account
}

/**
 * Makes a person of an invitation.
 * @param hash of the password
 * Errors: as `acceptInvitation`; CONFLICT (another person has the email).
 */
export async function joinAsNewPerson(
  tx: Db,
  token: string,
  { name, email, hash }: Pick<Person, 'name' | 'email'> & { readonly hash: string },
): Promise<{ person: Person; account: Account }> {
  const person = await insertPerson(tx, { id: newUuid(), name, email })
  if (!person)
    throw new AppError(
      'CONFLICT',
      'There is a person with this email already. Sign in, then open the invitation again.',
    )
  const account = await acceptInvitation(tx, token, person.id)
  await setPassword(tx, person.id, hash, undefined)
  return { person, account }
}
