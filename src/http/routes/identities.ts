import { Type } from 'typebox'
import { deleteIdentity, listIdentities } from '../../catalog/identity.ts'
import { AppError } from '../../errors.ts'
import { requireSession } from '../require_session.ts'
import { route } from '../route.ts'

const IdentityView = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    issuer: Type.String(),
    subject: Type.String({ description: 'The person as the provider knows him' }),
    created_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Identity' },
)

export const listOwnIdentities = route('GET /users/me/identities', {
  summary: 'The OpenID Connect identities by which the person who asks signs in',
  tag: 'User',
  returns: Type.Object({ identities: Type.Array(IdentityView) }),
  errors: [],
}).handle(async (_request, { db, caller }) => {
  const { person } = requireSession(caller)
  const rows = await listIdentities(db, person.id)
  return { identities: rows.map(({ id, issuer, subject, created_at }) => ({ id, issuer, subject, created_at })) }
})

export const removeOwnIdentity = route('DELETE /users/me/identities/:identity_id', {
  summary: 'Disconnect an OpenID Connect identity of the person who asks; it signs in no more',
  tag: 'User',
  scope: 'read',
  ofPerson: true,
  params: Type.Object({
    identity_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
  }),
  returns: Type.Object({}),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, { db, caller }) => {
  const { person } = requireSession(caller)
  if (!(await deleteIdentity(db, person.id, params.identity_id)))
    throw new AppError('NOT_FOUND', `identity ${params.identity_id} not found`)
  return {}
})
