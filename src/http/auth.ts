import type { FastifyRequest } from 'fastify'
import {
  type Account,
  findAccount,
  findAccountOfOrganization,
  findDefaultAccount,
  listAccountsOf,
  type MemberAccount,
} from '../catalog/account.ts'
import { type ApiKey, type Scope, useApiKey } from '../catalog/api_key.ts'
import { SCOPE_OF } from '../catalog/person.ts'
import type { RefusalWriter } from '../catalog/refusal_writer.ts'
import { type SessionOfPerson, useSession } from '../catalog/session.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'
import { ownerOf } from '../network.ts'
import { isWellFormedApiKey, isWellFormedToken, tokenHash } from '../secrets/generated.ts'
import { cookieOf } from './console/cookie.ts'
import { createCredentialCache } from './credential_cache.ts'
import type { Caller, Route } from './route.ts'

const RANK: Record<Scope, number> = { read: 0, write: 1, admin: 2 }
const ROLE_WITH: Record<Scope, string> = { read: 'a viewer', write: 'an editor', admin: 'an admin' }

/**
 * The header with the id of the organization that a request by cookie is for; empty: the person's first. Pages of other
 * origins cannot send it without a permission that this API never gives (Fetch Standard, "CORS-preflight fetch").
 */
export const ORGANIZATION_HEADER = 'neap-organization'

/** Connections over the 0600 socket: a process that can open it administers this Neap. */
export const adminSockets = new WeakSet<object>()

/** Authenticates a request. Errors: UNAUTHENTICATED; UNAVAILABLE (before set-up, over the admin socket). */
export interface Authenticate {
  (request: FastifyRequest): Promise<Caller>
  /** The session of a request's cookie, also that of a member of no organization. */
  readonly session: (request: FastifyRequest) => Promise<SessionOfPerson>
  /** Drops all cached credentials: called when this process has revoked one, before the notification arrives. */
  readonly forget: () => void
}

/** A key that was looked up; without an account it is revoked or expired. */
interface FoundKey {
  readonly key: ApiKey | undefined
  readonly account: Account | undefined
}

interface FoundSession {
  readonly session: SessionOfPerson
  readonly accounts: readonly MemberAccount[]
}

/**
 * Authenticates callers by their API keys, or by the cookies of sessions. A credential is looked up once and cached
 * until the catalog notifies of a changed one: a revoked key stops working on every api process, and a request with a
 * cached key costs no query.
 */
export async function createAuthenticator(
  { catalog, secrets }: Context,
  refusals: Pick<RefusalWriter, 'note'>,
): Promise<Authenticate> {
  const keys = createCredentialCache<FoundKey>(
    async (token, address) => {
      const key = isWellFormedApiKey(token) ? await useApiKey(catalog, secrets.hashApiKey(token), address) : undefined
      return { key, account: key?.in_force ? await findAccount(catalog, key.account_id) : undefined }
    },
    ({ key, account }) => (account ? leftMs(key?.expires_at) : 0),
  )
  const sessions = createCredentialCache<FoundSession | undefined>(
    async (token, address) => {
      const found = isWellFormedToken(token) ? await useSession(catalog, tokenHash(token), address) : undefined
      return found && { session: found, accounts: await listAccountsOf(catalog, found.person_id) }
    },
    (found) => (found ? leftMs(found.session.expires_at) : 0),
  )
  const forget = (): void => {
    keys.forget()
    sessions.forget()
  }
  await catalog.listen('api_key', forget)

  async function byKey(token: string, address: string): Promise<Caller> {
    const { key, account } = await keys.find(token, address)
    if (key && account)
      return { account, scope: key.scope, credential: { kind: 'api_key', id: key.id }, projectId: key.project_id }
    const network = ownerOf(address)
    refusals.note({ kind: 'api_key', accountId: key?.account_id, subject: String(key?.id ?? ''), role: '', network })
    throw new AppError(
      'UNAUTHENTICATED',
      'The API key is unknown, expired or revoked. Make another with: npx neap keys create',
    )
  }

  async function findSession(token: string, address: string): Promise<FoundSession> {
    const found = await sessions.find(token, address)
    if (!found) throw new AppError('UNAUTHENTICATED', 'The session has ended. Sign in again.')
    return found
  }

  async function bySession(token: string, organization: string, address: string): Promise<Caller> {
    const { session: found, accounts } = await findSession(token, address)
    const account = accounts.find((each) => organization === '' || each.organization_id === organization)
    if (!account && organization === '') throw new AppError('FORBIDDEN', NO_ORGANIZATION)
    if (!account) throw new AppError('NOT_FOUND', `organization ${organization} not found`)
    return {
      account,
      scope: SCOPE_OF[account.role],
      credential: { kind: 'session', id: found.id, person: found.person, session: found },
      projectId: null,
    }
  }

  /** The account that the operator asks about: his own, or that of the organization in the header. */
  async function byAdminSocket(organization: string): Promise<Account> {
    const owner = await findDefaultAccount(catalog)
    if (!owner) throw new AppError('UNAVAILABLE', 'This Neap is not set up yet. Try again shortly.')
    if (organization === '' || organization === owner.organization_id) return owner
    const account = await findAccountOfOrganization(catalog, organization)
    if (!account) throw new AppError('NOT_FOUND', `organization ${organization} not found`)
    return account
  }

  async function authenticate(request: FastifyRequest): Promise<Caller> {
    const { headers, clientAddress } = request
    const organization = headers[ORGANIZATION_HEADER]
    if (adminSockets.has(request.raw.socket)) {
      const account = await byAdminSocket(typeof organization === 'string' ? organization : '')
      return { account, scope: 'admin', credential: { kind: 'admin_socket' }, projectId: null }
    }
    const [, key] = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '') ?? []
    if (key) return byKey(key, clientAddress)
    const token = typeof organization === 'string' ? cookieOf(request) : undefined
    if (token !== undefined) return bySession(token, organization as string, clientAddress)
    throw new AppError('UNAUTHENTICATED', 'Send your API key in the header: Authorization: Bearer <key>')
  }
  async function session(request: FastifyRequest): Promise<SessionOfPerson> {
    const token = request.headers[ORGANIZATION_HEADER] === undefined ? undefined : cookieOf(request)
    if (token === undefined) throw new AppError('UNAUTHENTICATED', 'Sign in first.')
    return (await findSession(token, request.clientAddress)).session
  }
  return Object.assign(authenticate, { forget, session })
}

const NO_ORGANIZATION = 'You are a member of no organization. Ask an admin of one for an invitation, and open its link.'

const leftMs = (expiresAt: string | null | undefined): number =>
  expiresAt ? Date.parse(expiresAt) - Date.now() : Infinity

/**
 * Errors: FORBIDDEN (scope, or a project's key on a path without a project), NOT_FOUND (the key is for another
 * project).
 */
export function authorize(
  caller: Caller,
  route: Pick<Route, 'key' | 'scope' | 'anyProject'>,
  params: { project_id?: string },
): void {
  const scope = route.scope ?? (route.key.startsWith('GET ') ? 'read' : 'write')
  if (RANK[caller.scope] < RANK[scope])
    throw new AppError(
      'FORBIDDEN',
      caller.credential.kind === 'session'
        ? `You are ${ROLE_WITH[caller.scope]} of this organization; this needs ${ROLE_WITH[scope]}.`
        : `This API key has the scope ${caller.scope}; this needs ${scope}.`,
    )
  if (caller.projectId === null || route.anyProject) return
  if (params.project_id === undefined)
    throw new AppError('FORBIDDEN', `This API key is for the project ${caller.projectId} only.`)
  if (params.project_id !== caller.projectId) throw new AppError('NOT_FOUND', `project ${params.project_id} not found`)
}
