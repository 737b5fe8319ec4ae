import { type Static, Type } from 'typebox'
import type { Account } from '../../catalog/account.ts'
import { deleteInvitation, type Invitation, listInvitations } from '../../catalog/invitation.ts'
import { inviteMember } from '../../commands/invitation.ts'
import { AppError } from '../../errors.ts'
import { apiOrigin } from '../../public_address.ts'
import { AskedEmail, AskedRole, requireEmail, requireRole, Role } from '../person_fields.ts'
import { actorOf, route } from '../route.ts'
import { OrganizationId, requireOrganization } from './organizations.ts'

const InvitationView = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    org_id: Type.String(),
    role: Role,
    email: Type.String({ description: 'Whom it is meant for; empty: not said' }),
    invited_by: Type.String({ format: 'uuid', description: 'A person; the account for an API key' }),
    invited_by_name: Type.String({ description: 'Empty for an API key' }),
    invited_at: Type.String({ format: 'date-time' }),
    expires_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Invitation' },
)

const invitationView = (account: Account, row: Invitation): Static<typeof InvitationView> => ({
  id: row.id,
  org_id: account.organization_id,
  role: row.role,
  email: row.email,
  invited_by: row.invited_by ?? account.id,
  invited_by_name: row.inviter_name ?? '',
  invited_at: row.created_at,
  expires_at: row.expires_at,
})

export const listOrganizationInvitations = route('GET /organizations/:org_id/invitations', {
  summary: 'Invitations to an organization that can still be used, the latest first',
  tag: 'Organization',
  params: OrganizationId,
  returns: Type.Object({ invitations: Type.Array(InvitationView) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const account = requireOrganization(context, params.org_id)
  const rows = await listInvitations(context.db, account.id)
  return { invitations: rows.map((row) => invitationView(account, row)) }
})

const MAX_AT_ONCE = 20

const AskedInvitation = Type.Object({
  role: AskedRole,
  email: Type.Optional(AskedEmail),
  expires_at: Type.Optional(
    Type.String({ format: 'date-time', description: 'In the next 30 days; 7 days from now if not given' }),
  ),
})

const NewInvitation = Type.Object({
  ...InvitationView.properties,
  url: Type.String({ description: 'A page of the console, on the address of this machine' }),
})

export const createOrganizationInvitations = route('POST /organizations/:org_id/invitations', {
  summary:
    'Make links by each of which one person joins an organization; Neap sends no letters, and shows them this once',
  tag: 'Organization',
  scope: 'admin',
  params: OrganizationId,
  body: Type.Object({ invitations: Type.Array(AskedInvitation, { description: 'At most 20' }) }),
  returns: Type.Object({ invitations: Type.Array(NewInvitation) }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const account = requireOrganization(context, params.org_id)
  const { personId } = actorOf(context.caller)
  const invitations: Static<typeof NewInvitation>[] = []
  if (body.invitations.length > MAX_AT_ONCE)
    throw new AppError('NOT_ALLOWED', `invitations takes at most ${MAX_AT_ONCE} at once`)
  for (const { role, email, expires_at } of body.invitations) {
    const { invitation, token } = await inviteMember(context.db, account, personId, {
      role: requireRole(role),
      ...(email !== undefined && { email: requireEmail(email) }),
      ...(expires_at !== undefined && { expires_at }),
    })
    // Browsers send no fragment to servers: the token is in no log (RFC 3986, section 3.5).
    const url = `${apiOrigin(context.config)}/invitation#${token}`
    invitations.push({ ...invitationView(account, invitation), url })
  }
  return { invitations }
})

export const revokeOrganizationInvitation = route('DELETE /organizations/:org_id/invitations/:invitation_id', {
  summary: 'Revoke an invitation; its link works no more',
  tag: 'Organization',
  scope: 'admin',
  params: Type.Object({
    ...OrganizationId.properties,
    invitation_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
  }),
  returns: Type.Object({}),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const account = requireOrganization(context, params.org_id)
  if (!(await deleteInvitation(context.db, account.id, params.invitation_id)))
    throw new AppError('NOT_FOUND', `invitation ${params.invitation_id} not found`)
  return {}
})
