import { type Static, Type } from 'typebox'
import type { Account } from '../../catalog/account.ts'
import type { MemberRole } from '../../catalog/person.ts'
import { createOrganization, renameOrganization } from '../../commands/organization.ts'
import { AppError } from '../../errors.ts'
import { Name } from '../person_fields.ts'
import { requireSession } from '../require_session.ts'
import { type RequestContext, route } from '../route.ts'

export const Organization = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    handle: Type.String(),
    plan: Type.String(),
    managed_by: Type.String(),
    role: Type.Optional(Type.String({ description: 'Of the person who asks: admin, editor or viewer' })),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Organization' },
)

/** The account as an organization: public clients request one before they create a project. */
export function presentOrganization(account: Account, role?: MemberRole): Static<typeof Organization> {
  return {
    id: account.organization_id,
    name: account.name,
    handle: account.organization_id,
    plan: account.plan,
    managed_by: 'console',
    ...(role && { role }),
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

export const getOrganization = route('GET /organizations/:org_id', {
  summary: 'Get an organization',
  tag: 'Organization',
  params: OrganizationId,
  returns: Organization,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => presentOrganization(requireOrganization(context, params.org_id)))

export const createOrganizationOfPerson = route('POST /organizations', {
  summary: 'Create an organization, whose first admin is the person who asks',
  tag: 'Organization',
  scope: 'read',
  status: 201,
  changesKeys: true,
  ofPerson: true,
  body: Type.Object({ organization: Type.Object({ name: Name }) }),
  returns: Organization,
  errors: [],
}).handle(async ({ body }, { db, caller, config }) => {
  const { person } = requireSession(caller)
  return presentOrganization(await createOrganization({ db, config }, person, body.organization.name), 'admin')
})

export const updateOrganization = route('PATCH /organizations/:org_id', {
  summary: 'Rename an organization',
  tag: 'Organization',
  scope: 'admin',
  changesKeys: true,
  params: OrganizationId,
  body: Type.Object({ organization: Type.Object({ name: Name }) }),
  returns: Organization,
  errors: ['NOT_FOUND'],
}).handle(async ({ params, body }, context) => {
  const account = requireOrganization(context, params.org_id)
  return presentOrganization(await renameOrganization(context.db, account, body.organization.name))
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
