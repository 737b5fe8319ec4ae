import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { insertAudit } from '../../catalog/audit.ts'
import { acceptInvitation, joinAsNewPerson, lookAtInvitation } from '../../commands/invitation.ts'
import { requireGoodPassword } from '../../commands/password.ts'
import { beginSession } from '../../commands/sign_in.ts'
import type { Context } from '../../context.ts'
import { Email, Name, NewPassword, Token } from '../person_fields.ts'
import { auditEntry } from '../refusal.ts'
import { answerSignedIn, browserOf, openSession } from './open_session.ts'
import { admitVisitor, type SignInGates } from './sign_in.ts'

/*
 * Invitations for the holder of the link: the token is the credential, in the body, so that no log has it.
 * Errors: NOT_FOUND (the invitation is used, revoked or expired).
 */

const PATH = '/invitation'

const Look = Type.Object({ token: Token })
const Join = Type.Object({ token: Token, name: Name, email: Email, password: NewPassword })

export function serveInvitations(app: FastifyInstance, context: Context, gates: SignInGates): void {
  const { catalog } = context
  const { authenticate, passwords } = gates
  const onRequest = admitVisitor(gates)

  app.post<{ Body: Static<typeof Look> }>(
    PATH,
    { schema: { hide: true, body: Look }, onRequest },
    async ({ body }, reply) => {
      const { invitation, account } = await lookAtInvitation(catalog, body.token)
      return reply.header('cache-control', 'no-store').send({
        organization: account.name,
        organization_id: account.organization_id,
        role: invitation.role,
        email: invitation.email,
        invited_by: invitation.inviter_name ?? '',
        expires_at: invitation.expires_at,
      })
    },
  )

  // A person without an organization has no caller in the API: he joins here.
  app.post<{ Body: Static<typeof Look> }>(
    `${PATH}/accept`,
    { schema: { hide: true, body: Look }, onRequest },
    async (request, reply) => {
      const { person } = await authenticate.session(request)
      const account = await catalog.transaction(async (tx) => {
        const joined = await acceptInvitation(tx, request.body.token, person.id)
        const entry = auditEntry(request, `POST ${PATH}/accept`, 200)
        await insertAudit(tx, { ...entry, accountId: joined.id, personId: person.id })
        return joined
      })
      authenticate.forget()
      return reply.send({ organization_id: account.organization_id })
    },
  )

  app.post<{ Body: Static<typeof Join> }>(
    `${PATH}/join`,
    { schema: { hide: true, body: Join }, onRequest },
    async (request, reply) => {
      const { token, name, email, password } = request.body
      requireGoodPassword(password, { email })
      // Only for a valid invitation: hashing takes time.
      await lookAtInvitation(catalog, token)
      const hash = await passwords.hash(request.clientAddress, password)
      const made = await openSession(context, request, `POST ${PATH}/join`, async (tx) => {
        const { person } = await joinAsNewPerson(tx, token, { name, email, hash })
        return beginSession(tx, person.id, 'invitation', browserOf(request))
      })
      return answerSignedIn(request, reply, made)
    },
  )
}
