import { type Account, lockAccount } from '../catalog/account.ts'
import type { Db } from '../catalog/catalog.ts'
import { deleteInvitationsBy } from '../catalog/invitation.ts'
import { deleteMember, findMember, hasOtherAdmin, type Member, updateMemberRole } from '../catalog/member.ts'
import type { MemberRole } from '../catalog/person.ts'
import { AppError } from '../errors.ts'

/** A member of an account, whose memberships stay as they are until the transaction ends. Errors: NOT_FOUND. */
async function lockedMember(tx: Db, account: Account, personId: string): Promise<Member> {
  await lockAccount(tx, account.id)
  const member = await findMember(tx, account.id, personId)
  if (!member) throw new AppError('NOT_FOUND', `member ${personId} not found`)
  return member
}

/** Errors: NOT_ALLOWED (the member is the only admin). */
async function requireOtherAdmin(tx: Db, account: Account, { role, person }: Member): Promise<void> {
  if (role === 'admin' && !(await hasOtherAdmin(tx, account.id, person.id)))
    throw new AppError('NOT_ALLOWED', 'An organization keeps at least one admin. Make another member an admin first.')
}

/**
 * Changes the role of a member. The invitations of a former admin end: their holder would have a role that he may no
 * longer give. Errors: NOT_FOUND, NOT_ALLOWED (of the only admin).
 */
export async function changeMemberRole(tx: Db, account: Account, personId: string, role: MemberRole): Promise<Member> {
  const member = await lockedMember(tx, account, personId)
  if (role !== 'admin') {
    await requireOtherAdmin(tx, account, member)
    await deleteInvitationsBy(tx, account.id, personId)
  }
  await updateMemberRole(tx, account.id, personId, role)
  return { ...member, role }
}

/**
 * Removes a member. His sessions lose the organization at once, and his invitations end, by which he could join again.
 * Errors: NOT_FOUND, NOT_ALLOWED (the only admin).
 */
export async function removeMember(tx: Db, account: Account, personId: string): Promise<Member> {
  const member = await lockedMember(tx, account, personId)
  await requireOtherAdmin(tx, account, member)
  await deleteMember(tx, account.id, personId)
  await deleteInvitationsBy(tx, account.id, personId)
  return member
}
