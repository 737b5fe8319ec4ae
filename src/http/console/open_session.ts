import type { FastifyReply, FastifyRequest } from 'fastify'
import { insertPersonAudit } from '../../catalog/audit.ts'
import type { Db } from '../../catalog/catalog.ts'
import type { Browser, SignedInSession } from '../../commands/sign_in.ts'
import type { Context } from '../../context.ts'
import { AppError } from '../../errors.ts'
import { ORGANIZATION_HEADER } from '../auth.ts'
import { auditEntry } from '../refusal.ts'
import { setCookie } from './cookie.ts'

export const browserOf = ({ clientAddress, headers }: FastifyRequest): Browser => ({
  address: clientAddress,
  userAgent: headers['user-agent'] ?? '',
})

/** Begins a session in a transaction with its audit rows, one for each organization of its person. */
export function openSession(
  { catalog }: Pick<Context, 'catalog'>,
  request: FastifyRequest,
  action: string,
  begin: (tx: Db) => Promise<SignedInSession>,
): Promise<SignedInSession> {
  return catalog.transaction(async (tx) => {
    const made = await begin(tx)
    const entry = { ...auditEntry(request, action, 204), personId: made.session.person_id }
    await insertPersonAudit(tx, entry)
    return made
  })
}

/** Answers with the cookie of a session that has begun. */
export const answerSignedIn = (request: FastifyRequest, reply: FastifyReply, { token }: SignedInSession) =>
  reply.status(204).header('set-cookie', setCookie(request, token)).send()

/** Keeps pages of other origins from signing a browser in as a person of their choice. Errors: FORBIDDEN. */
export function requireOwnOrigin({ headers }: FastifyRequest): void {
  if (headers[ORGANIZATION_HEADER] === undefined)
    throw new AppError('FORBIDDEN', `Signing in takes the header ${ORGANIZATION_HEADER}.`)
}
