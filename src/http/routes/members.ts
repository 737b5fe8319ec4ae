import { type Static, Type } from 'typebox'
import type { Account } from '../../catalog/account.ts'
import { findMember, listMembers, type Member } from '../../catalog/member.ts'
import { changeMemberRole, removeMember } from '../../commands/member.ts'
import { AppError } from '../../errors.ts'
import { AskedRole, requireRole, Role } from '../person_fields.ts'
import { requireSession } from '../require_session.ts'
import { route } from '../route.ts'
import { OrganizationId, requireOrganization } from './organizations.ts'

const MemberView = Type.Object(
  {
    id: Type.String({ format: 'uuid', description: 'Of the person' }),
    user_id: Type.String({ format: 'uuid' }),
    org_id: Type.String(),
    role: Role,
    joined_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Member' },
)

const memberView = ({ organization_id }: Account, { role, joined_at, person }: Member): Static<typeof MemberView> => ({
  id: person.id,
  user_id: person.id,
  org_id: organization_id,
  role,
  joined_at,
})

const MemberId = Type.Object({
  ...OrganizationId.properties,
  member_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
})

export const listOrganizationMembers = route('GET /organizations/:org_id/members', {
  summary: 'The members of an organization, in the order in which they joined',
  tag: 'Organization',
  params: OrganizationId,
  returns: Type.Object({
    members: Type.Array(
      Type.Object({ member: MemberView, user: Type.Object({ email: Type.String(), name: Type.String() }) }),
    ),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const account = requireOrganization(context, params.org_id)
  const members = await listMembers(context.db, account.id)
  return {
    members: members.map((member) => ({
      member: memberView(account, member),
      user: { email: member.person.email, name: member.person.name },
    })),
  }
})

export const getOrganizationMember = route('GET /organizations/:org_id/members/:member_id', {
  summary: 'A member of an organization',
  tag: 'Organization',
  params: MemberId,
  returns: MemberView,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const account = requireOrganization(context, params.org_id)
  const member = await findMember(context.db, account.id, params.member_id)
  if (!member) throw new AppError('NOT_FOUND', `member ${params.member_id} not found`)
  return memberView(account, member)
})

export const updateOrganizationMember = route('PATCH /organizations/:org_id/members/:member_id', {
  summary: 'Change the role of a member; an organization keeps at least one admin',
  tag: 'Organization',
  scope: 'admin',
  changesKeys: true,
  params: MemberId,
  body: Type.Object({ role: AskedRole }),
  returns: MemberView,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const account = requireOrganization(context, params.org_id)
  return memberView(account, await changeMemberRole(context.db, account, params.member_id, requireRole(body.role)))
})

export const removeOrganizationMember = route('DELETE /organizations/:org_id/members/:member_id', {
  summary: 'Remove a member, who loses access at once; an organization keeps at least one admin',
  tag: 'Organization',
  scope: 'admin',
  changesKeys: true,
  params: MemberId,
  returns: MemberView,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  const account = requireOrganization(context, params.org_id)
  return memberView(account, await removeMember(context.db, account, params.member_id))
})

export const leaveOrganization = route('DELETE /users/me/organizations/:org_id', {
  summary: 'Leave an organization, as the person who asks',
  tag: 'User',
  scope: 'read',
  changesKeys: true,
  params: OrganizationId,
  returns: MemberView,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  const { person } = requireSession(context.caller)
  const account = requireOrganization(context, params.org_id)
  return memberView(account, await removeMember(context.db, account, person.id))
})
