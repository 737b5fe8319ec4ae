import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { findAccount, findDefaultAccount } from '../catalog/account.ts'
import { type ApiKey, type Scope, useApiKey } from '../catalog/api_key.ts'
import type { RefusalWriter } from '../catalog/refusal_writer.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'
import { ownerOf } from '../network.ts'
import { isWellFormedApiKey } from '../secrets/generated.ts'
import type { Caller, Route } from './route.ts'

const RANK: Record<Scope, number> = { read: 0, write: 1, admin: 2 }

/** A cached key is looked up again after this time: bounds the harm of a listener that died unnoticed. */
const KNOWN_MS = 5_000

/** Connections over the 0600 socket: a process that can open it administers this Neap. */
export const adminSockets = new WeakSet<object>()

/** Authenticates a request. Errors: UNAUTHENTICATED; UNAVAILABLE (before set-up, over the admin socket). */
export interface Authenticate {
  (request: FastifyRequest): Promise<Caller>
  /** Drops all cached keys: called when this process has revoked a key, before the notification arrives. */
  readonly forget: () => void
}

interface Known {
  readonly caller: Caller
  readonly until: number
}

/** The result of a look-up; for a revoked or expired key, `key` alone. */
interface Found {
  readonly key: ApiKey | undefined
  readonly caller: Caller | undefined
}

/**
 * Authenticates callers by their API keys. A key is looked up once and cached until the catalog notifies of a changed
 * key: a revoked key stops working on every api process, and a request with a cached key costs no query.
 */
export async function createAuthenticator(
  { catalog, secrets }: Context,
  refusals: Pick<RefusalWriter, 'note'>,
): Promise<Authenticate> {
  const known = new Map<string, Known>()
  const underWay = new Map<string, Promise<Found>>()
  let changes = 0
  const forget = (): void => {
    changes += 1
    known.clear()
    // Look-ups in progress may have read the state before the change.
    underWay.clear()
  }
  await catalog.listen('api_key', forget)

  async function lookUp(token: string, digest: string, address: string): Promise<Found> {
    const before = changes
    const key = isWellFormedApiKey(token) ? await useApiKey(catalog, secrets.hashApiKey(token), address) : undefined
    const account = key?.in_force && (await findAccount(catalog, key.account_id))
    if (!key || !account) return { key, caller: undefined }
    const caller = { account, scope: key.scope, apiKeyId: key.id, projectId: key.project_id }
    // A key revoked during its look-up must not be cached.
    if (before === changes) known.set(digest, { caller, until: Date.now() + lifetime(key) })
    return { key, caller }
  }

  async function authenticate(request: FastifyRequest): Promise<Caller> {
    if (adminSockets.has(request.raw.socket)) {
      const owner = await findDefaultAccount(catalog)
      if (!owner) throw new AppError('UNAVAILABLE', 'This Neap is not set up yet. Try again shortly.')
      return { account: owner, scope: 'admin', apiKeyId: undefined, projectId: null }
    }
    const [, token] = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '') ?? []
    if (!token) throw new AppError('UNAUTHENTICATED', 'Send your API key in the header: Authorization: Bearer <key>')
    // The cache is keyed by a digest, so that the key itself is not kept. A plain hash is enough: the key has 256
    // random bits, and the keyed hash costs ten times as much.
    const digest = hash('sha256', token, 'base64')
    const found = known.get(digest)
    if (found && found.until > Date.now()) return found.caller
    // Concurrent requests of an uncached key share one look-up.
    let asked = underWay.get(digest)
    if (!asked) {
      asked = lookUp(token, digest, request.clientAddress).finally(() => {
        if (underWay.get(digest) === asked) underWay.delete(digest)
      })
      underWay.set(digest, asked)
    }
    const { key, caller } = await asked
    if (caller) return caller
    const network = ownerOf(request.clientAddress)
    refusals.note({ kind: 'api_key', accountId: key?.account_id, subject: String(key?.id ?? ''), role: '', network })
    throw new AppError(
      'UNAUTHENTICATED',
      'The API key is unknown, expired or revoked. Make another with: npx neap keys create',
    )
  }
  return Object.assign(authenticate, { forget })
}

function lifetime({ expires_at }: ApiKey): number {
  return Math.min(KNOWN_MS, expires_at ? Date.parse(expires_at) - Date.now() : Infinity)
}

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
  if (RANK[caller.scope] < RANK[scope]) {
    throw new AppError('FORBIDDEN', `This API key has the scope ${caller.scope}; this needs ${scope}.`)
  }
  if (caller.projectId === null || route.anyProject) return
  if (params.project_id === undefined)
    throw new AppError('FORBIDDEN', `This API key is for the project ${caller.projectId} only.`)
  if (params.project_id !== caller.projectId) throw new AppError('NOT_FOUND', `project ${params.project_id} not found`)
}
