import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { parseCookie, stringifySetCookie } from 'cookie'
import { type Static, Type } from 'typebox'
import { insertPersonAudit } from '../../catalog/audit.ts'
import { isSessionValid, type SessionOfPerson } from '../../catalog/session.ts'
import { connectIdentity, OidcRefusal, personOf } from '../../commands/oidc_sign_in.ts'
import { beginSession } from '../../commands/sign_in.ts'
import type { Context } from '../../context.ts'
import { AppError } from '../../errors.ts'
import { ownerOf } from '../../network.ts'
import { isWellFormedToken, newToken } from '../../secrets/generated.ts'
import { openOidcProvider } from '../oidc_provider.ts'
import { Token } from '../person_fields.ts'
import { auditEntry } from '../refusal.ts'
import { isFresh } from '../require_session.ts'
import { isSecure, portOf, setCookie } from './cookie.ts'
import { browserOf, openSession } from './open_session.ts'
import { admitVisitor, type SignInGates } from './sign_in.ts'

/*
 * Sign-in at an OpenID Connect provider (authorization code flow with PKCE). The page asks for the address of the
 * provider and gets a cookie with a secret, from which state, nonce and verifier follow; the provider sends the browser
 * back, whose secret must fit what it brings. That request comes from another site, so the session's own cookie, which
 * is strict, is not in it: a sealed text in the cookie of the secret names the session of a person who connects a
 * provider.
 */

const PATH = '/session/oidc'
const CALLBACK = `${PATH}/callback`
const MAX_AGE_SECONDS = 600
const SEALED_FOR = 'oidc connect'

const Start = Type.Object({ invitation: Type.Optional(Token), connect: Type.Optional(Type.Boolean()) })

/** Serves the sign-in at the provider of the settings; says which one that is, if any. */
export function serveOidc(app: FastifyInstance, context: Context, gates: SignInGates): void {
  const { config, log, secrets } = context
  const provider = openOidcProvider(config)
  app.get('/session', { schema: { hide: true } }, async () => ({ ...(provider && { oidc: provider.name }) }))
  if (!provider) return

  app.post<{ Body: Static<typeof Start> }>(
    PATH,
    { schema: { hide: true, body: Start }, onRequest: admitVisitor(gates) },
    async (request, reply) => {
      const { invitation = '', connect } = request.body
      const session = connect ? await freshSession(gates, request) : undefined
      const sealed = session === undefined ? '' : seal(session)
      const secret = newToken()
      const url = await provider.start(secret, new URL(CALLBACK, originOf(request))).catch((error: unknown) => {
        if (error instanceof AppError) throw error
        log.warn({ err: error }, 'the OpenID Connect provider does not answer as it should')
        throw new AppError('NOT_ALLOWED', 'The provider does not answer. Try again, or sign in otherwise.')
      })
      const cookie = oidcCookie(request, [secret, invitation, sealed].join('.'))
      return reply.header('set-cookie', cookie).header('cache-control', 'no-store').send({ url: url.href })
    },
  )

  app.get(
    CALLBACK,
    {
      schema: { hide: true },
      onRequest: async (request, reply) => gates.limit(reply, ownerOf(request.clientAddress), 'sign-in'),
    },
    async (request, reply) => {
      const given = parseCookie(request.headers.cookie ?? '')[cookieName(request)] ?? ''
      const [secret = '', invitation = '', sealed = ''] = given.split('.')
      const emptied = oidcCookie(request, '')
      void reply.header('cache-control', 'no-store').header('set-cookie', emptied)
      try {
        if (!isWellFormedToken(secret)) throw new OidcRefusal('failed')
        const claims = await provider.finish(secret, new URL(request.url, originOf(request)))
        if (sealed !== '') {
          await connectTo(context, request, claims, unseal(sealed))
          return await reply.redirect('/you', 303)
        }
        const admits = { invitation: invitation || undefined, role: roleIn(config.oidcRole) }
        const made = await openSession(context, request, `GET ${CALLBACK}`, async (tx) =>
          beginSession(tx, await personOf(tx, claims, admits), 'oidc', browserOf(request)),
        )
        gates.authenticate.forget()
        void reply.header('set-cookie', setCookie(request, made.token))
        return await reply.redirect('/', 303)
      } catch (error) {
        return refuse(request, reply, error)
      }
    },
  )

  function seal({ id, person_id }: SessionOfPerson): string {
    const text = JSON.stringify({ person: person_id, session: id, until: Date.now() + MAX_AGE_SECONDS * 1_000 })
    return secrets.encrypt('reply', text, SEALED_FOR).toString('base64url')
  }

  function unseal(sealed: string): Connecting {
    const text = secrets.decrypt('reply', Buffer.from(sealed, 'base64url'), SEALED_FOR)
    const connecting = JSON.parse(text) as Connecting
    if (connecting.until < Date.now()) throw new OidcRefusal('failed')
    return connecting
  }

  function refuse(request: FastifyRequest, reply: FastifyReply, error: unknown) {
    if (!(error instanceof OidcRefusal)) request.log.info({ err: error }, 'a sign-in at the provider failed')
    const problem = error instanceof OidcRefusal ? error.problem : error instanceof AppError ? 'invitation' : 'failed'
    const network = ownerOf(request.clientAddress)
    gates.refusals.note({ kind: 'sign_in', accountId: undefined, subject: '', role: '', network })
    return reply.redirect(`/#problem=${problem}`, 303)
  }
}

/** The session that connects an account of the provider. */
interface Connecting {
  readonly person: string
  readonly session: number
  /** Milliseconds since the epoch. */
  readonly until: number
}

/** Lets the person of a session sign in by the provider's claims. Errors: OidcRefusal. */
async function connectTo(
  { catalog }: Pick<Context, 'catalog'>,
  request: FastifyRequest,
  claims: Parameters<typeof connectIdentity>[1],
  { person: personId, session }: Connecting,
) {
  await catalog.transaction(async (tx) => {
    // A session that was ended meanwhile, perhaps as a stolen one, must not leave a way to sign in behind.
    if (!(await isSessionValid(tx, personId, session))) throw new OidcRefusal('failed')
    await connectIdentity(tx, claims, personId)
    await insertPersonAudit(tx, { ...auditEntry(request, `GET ${CALLBACK}`, 303), personId })
  })
}

/** The session of a request, which is fresh. Errors: UNAUTHENTICATED, FORBIDDEN. */
async function freshSession({ authenticate }: SignInGates, request: FastifyRequest): Promise<SessionOfPerson> {
  const session = await authenticate.session(request)
  if (!isFresh(session)) throw new AppError('FORBIDDEN', 'Sign in again, then connect within 15 minutes.')
  return session
}

const roleIn = (role: 'none' | 'viewer' | 'editor') => (role === 'none' ? undefined : role)

const cookieName = (request: FastifyRequest): string => `neap_oidc_${portOf(request)}`

/** Lax, since the browser comes back from another site (RFC 6265bis, section 5.6.7). */
const oidcCookie = (request: FastifyRequest, value: string): string =>
  stringifySetCookie({
    name: cookieName(request),
    value,
    path: PATH,
    httpOnly: true,
    sameSite: 'lax',
    secure: isSecure(request),
    maxAge: value === '' ? 0 : MAX_AGE_SECONDS,
  })

/** The origin of the console as the browser addressed it: the provider knows it, and refuses others. */
function originOf(request: FastifyRequest): string {
  const host = [request.headers['x-forwarded-host'] ?? request.headers.host].flat()[0] ?? ''
  const origin = `${isSecure(request) ? 'https' : 'http'}://${host}`
  if (!URL.canParse(origin)) throw new AppError('INVALID_REQUEST', 'The header Host names no host.')
  return origin
}
