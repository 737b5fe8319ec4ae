import { type Static, Type } from 'typebox'
import type { Account } from '../../catalog/account.ts'
import { AppError } from '../../errors.ts'
import { type RequestContext, route } from '../route.ts'

export const Organization = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    handle: Type.String(),
    plan: Type.String(),
    managed_by: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Organization' },
)

/** The account as an organization: public clients request one before they create a project. */
export function presentOrganization(account: Account): Static<typeof Organization> {
  return {
    id: account.organization_id,
    name: account.name,
    handle: account.organization_id,
    plan: account.plan,
    managed_by: 'console',
    created_at: account.created_at,
    updated_at: account.created_at,
  }
}

export const OrganizationId = Type.Object({ org_id: Type.String() })

/** Returns the caller's account if the organization is its own. Errors: NOT_FOUND, also for another account's. */
export function requireOrganization({ caller }: RequestContext, id: string): Account {
  if (id !== caller.account.organization_id) throw new AppError('NOT_FOUND', `organization ${id} not found`)
  return caller.account
}

const Member = Type.Object({
  id: Type.String({ format: 'uuid' }),
  user_id: Type.String({ format: 'uuid' }),
  org_id: Type.String(),
  role: Type.Literal('admin'),
  joined_at: Type.String({ format: 'date-time' }),
})

function presentMember({ id, organization_id, created_at }: Account): Static<typeof Member> {
  return { id, user_id: id, org_id: organization_id, role: 'admin', joined_at: created_at }
}

export const getOrganization = route('GET /organizations/:org_id', {
  summary: 'Get an organization',
  tag: 'Organization',
  params: OrganizationId,
  returns: Organization,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => presentOrganization(requireOrganization(context, params.org_id)))

export const listOrganizationMembers = route('GET /organizations/:org_id/members', {
  summary: 'The members of an organization: the account itself',
  tag: 'Organization',
  params: OrganizationId,
  returns: Type.Object({
    members: Type.Array(Type.Object({ member: Member, user: Type.Object({ email: Type.String() }) })),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const account = requireOrganization(context, params.org_id)
  return { members: [{ member: presentMember(account), user: { email: account.email } }] }
})

export const getOrganizationMember = route('GET /organizations/:org_id/members/:member_id', {
  summary: 'A member of an organization: the account itself',
  tag: 'Organization',
  params: Type.Object({ org_id: Type.String(), member_id: Type.String() }),
  returns: Member,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const account = requireOrganization(context, params.org_id)
  if (params.member_id !== account.id) throw new AppError('NOT_FOUND', `member ${params.member_id} not found`)
  return presentMember(account)
})

export const listOrganizationInvitations = route('GET /organizations/:org_id/invitations', {
  summary: 'Invitations to an organization, of which there are none here',
  tag: 'Organization',
  params: OrganizationId,
  returns: Type.Object({ invitations: Type.Array(Type.Object({})) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  requireOrganization(context, params.org_id)
  return { invitations: [] }
})

export const listOrganizationVpcEndpoints = route('GET /organizations/:org_id/vpc/region/:region_id/vpc_endpoints', {
  summary: 'Private endpoints of an organization, of which there are none here',
  tag: 'Organization',
  params: Type.Object({ org_id: Type.String(), region_id: Type.String() }),
  returns: Type.Object({ endpoints: Type.Array(Type.Object({})) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  requireOrganization(context, params.org_id)
  return { endpoints: [] }
})

export const listAllOrganizationVpcEndpoints = route('GET /organizations/:org_id/vpc/vpc_endpoints', {
  summary: 'Private endpoints of an organization in all regions, of which there are none here',
  tag: 'Organization',
  params: OrganizationId,
  returns: Type.Object({ endpoints: Type.Array(Type.Object({})) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  requireOrganization(context, params.org_id)
  return { endpoints: [] }
})
