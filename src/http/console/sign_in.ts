import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { insertAudit } from '../../catalog/audit.ts'
import { listAccountsOf } from '../../catalog/account.ts'
import { endSession } from '../../catalog/session.ts'
import { signInByLink } from '../../commands/sign_in.ts'
import type { Context } from '../../context.ts'
import { AppError } from '../../errors.ts'
import { ownerOf } from '../../network.ts'
import { ORGANIZATION_HEADER } from '../auth.ts'
import type { Gates } from '../mount.ts'
import { auditEntry } from '../refusal.ts'
import { setCookie } from './cookie.ts'

const PATH = '/session'

const SignIn = Type.Object({ link: Type.String({ minLength: 1, maxLength: 100, description: 'The token of a link' }) })

/**
 * Signs browsers in and out: beside the API, since the first request has no credential and both answer with a cookie.
 * Errors: UNAUTHENTICATED, RATE_LIMITED.
 */
export function serveSignIn(
  app: FastifyInstance,
  context: Context,
  { authenticate, limit }: Pick<Gates, 'authenticate' | 'limit'>,
): void {
  const hidden = { hide: true }
  app.post<{ Body: Static<typeof SignIn> }>(
    PATH,
    {
      schema: { ...hidden, body: SignIn },
      onRequest: async (request, reply) => {
        requireOwnOrigin(request)
        limit(reply, ownerOf(request.clientAddress), 'sign-in')
      },
    },
    async (request, reply) => {
      const token = await context.catalog.transaction(async (tx) => {
        const { session, token: made } = await signInByLink(tx, request.body.link, {
          address: request.clientAddress,
          userAgent: request.headers['user-agent'] ?? '',
        })
        const [account] = await listAccountsOf(tx, session.person_id)
        const entry = {
          ...auditEntry(request, `POST ${PATH}`, 204),
          accountId: account?.id,
          personId: session.person_id,
        }
        await insertAudit(tx, entry)
        return made
      })
      return reply.status(204).header('set-cookie', setCookie(request, token)).send()
    },
  )
  app.delete(PATH, { schema: hidden }, async (request, reply) => {
    request.caller = await authenticate(request)
    const { credential } = request.caller
    if (credential.kind !== 'session') throw new AppError('FORBIDDEN', 'Only a session can be signed out.')
    await context.catalog.transaction(async (tx) => {
      await endSession(tx, credential.person.id, credential.id)
      await insertAudit(tx, auditEntry(request, `DELETE ${PATH}`, 204))
    })
    authenticate.forget()
    return reply.status(204).header('set-cookie', setCookie(request, undefined)).send()
  })
}

/** Keeps pages of other origins from signing a browser in as a person of their choice. */
function requireOwnOrigin({ headers }: FastifyRequest): void {
  if (headers[ORGANIZATION_HEADER] === undefined)
    throw new AppError('FORBIDDEN', `Signing in takes the header ${ORGANIZATION_HEADER}.`)
}
