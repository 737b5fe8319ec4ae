import type { AuthenticationResponseJSON } from '@simplewebauthn/server'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { listAccountsOf } from '../../catalog/account.ts'
import { insertPersonAudit } from '../../catalog/audit.ts'
import type { Db } from '../../catalog/catalog.ts'
import { findPasswordByEmail } from '../../catalog/person.ts'
import type { RefusalWriter } from '../../catalog/refusal_writer.ts'
import { endSession } from '../../catalog/session.ts'
import { askForPasskey, checkPasskey, signInByPasskey } from '../../commands/passkey.ts'
import { type SignedInSession, signInByLink, signInByPassword, wrongPassword } from '../../commands/sign_in.ts'
import type { Context } from '../../context.ts'
import { AppError } from '../../errors.ts'
import { ownerOf } from '../../network.ts'
import type { Gates } from '../mount.ts'
import { Password, Token } from '../person_fields.ts'
import { auditEntry } from '../refusal.ts'
import { siteOf } from '../site.ts'
import { setCookie } from './cookie.ts'
import { answerSignedIn, browserOf, openSession, requireOwnOrigin } from './open_session.ts'

const PATH = '/session'

const SignIn = Type.Object({
  link: Type.Optional(Token),
  email: Type.Optional(Type.String({ minLength: 1, maxLength: 254 })),
  password: Type.Optional(Password),
  passkey: Type.Optional(Type.Unsafe<AuthenticationResponseJSON>(Type.Object({ id: Type.String() }))),
})

export interface SignInGates extends Pick<Gates, 'authenticate' | 'limit' | 'passwords'> {
  readonly refusals: Pick<RefusalWriter, 'note'>
}

/** The first gates of requests without a credential: the header of this origin, and a rate by network. */
export const admitVisitor =
  ({ limit }: Pick<Gates, 'limit'>) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    requireOwnOrigin(request)
    limit(reply, ownerOf(request.clientAddress), 'sign-in')
  }

/**
 * Signs browsers in and out: beside the API, since the first request has no credential and both answer with a cookie.
 * Errors: UNAUTHENTICATED, RATE_LIMITED.
 */
export function serveSignIn(app: FastifyInstance, context: Context, gates: SignInGates): void {
  const { authenticate } = gates
  app.post<{ Body: Static<typeof SignIn> }>(
    PATH,
    { schema: { hide: true, body: SignIn }, onRequest: admitVisitor(gates) },
    async (request, reply) => {
      const { link, email, password, passkey } = request.body
      if (link !== undefined) {
        const begin = (tx: Db) => signInByLink(tx, link, browserOf(request))
        return answerSignedIn(request, reply, await openSession(context, request, `POST ${PATH}`, begin))
      }
      if (passkey !== undefined) {
        const shown = await checkPasskey(context.catalog, siteOf(request.headers), passkey)
        const begin = (tx: Db) => signInByPasskey(tx, shown, browserOf(request))
        return answerSignedIn(request, reply, await openSession(context, request, `POST ${PATH}`, begin))
      }
      if (email === undefined || password === undefined)
        throw new AppError('INVALID_REQUEST', 'Send a link, a passkey, or email and password.')
      return answerSignedIn(request, reply, await byPassword(context, gates, request, { email, password }))
    },
  )
  app.post(`${PATH}/passkey`, { schema: { hide: true }, onRequest: admitVisitor(gates) }, async (request, reply) => {
    const options = await askForPasskey(context.catalog, siteOf(request.headers), ownerOf(request.clientAddress))
    return reply.header('cache-control', 'no-store').send({ options })
  })
  app.delete(PATH, { schema: { hide: true } }, async (request, reply) => {
    const { id, person } = await authenticate.session(request)
    await context.catalog.transaction(async (tx) => {
      await endSession(tx, person.id, id)
      await insertPersonAudit(tx, { ...auditEntry(request, `DELETE ${PATH}`, 204), personId: person.id })
    })
    authenticate.forget()
    return reply.status(204).header('set-cookie', setCookie(request, undefined)).send()
  })
}

/**
 * Begins a session by email and password. An unknown email, a person without a password and a wrong password are
 * answered alike, after the same work. Errors: UNAUTHENTICATED, RATE_LIMITED.
 */
async function byPassword(
  context: Context,
  { passwords, refusals }: Pick<SignInGates, 'passwords' | 'refusals'>,
  request: FastifyRequest,
  { email, password }: { readonly email: string; readonly password: string },
): Promise<SignedInSession> {
  const { catalog } = context
  const address = request.clientAddress
  const { person, hash } = (await findPasswordByEmail(catalog, email)) ?? {}
  const guess = { address, name: person?.id ?? email.toLowerCase() }
  if ((await passwords.matches(guess, password, hash ?? undefined)) && person && hash) {
    const begin = (tx: Db) => signInByPassword(tx, { personId: person.id, hash }, browserOf(request))
    return openSession(context, request, `POST ${PATH}`, begin)
  }
  const note = (accountId: string | undefined) =>
    refusals.note({ kind: 'sign_in', accountId, subject: person?.id ?? '', role: '', network: ownerOf(address) })
  const accounts = person ? await listAccountsOf(catalog, person.id) : []
  for (const { id } of accounts) note(id)
  if (accounts.length === 0) note(undefined)
  throw wrongPassword()
}
