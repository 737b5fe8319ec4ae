import type { FastifyRequest } from 'fastify'
import { findAccount, findDefaultAccount } from '../catalog/account.ts'
import { type Scope, useApiKey } from '../catalog/api_key.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'
import { isWellFormedApiKey } from '../secrets.ts'
import type { Caller } from './route.ts'

const RANK: Record<Scope, number> = { read: 0, write: 1, admin: 2 }

/** Marks requests that came over the 0600 socket: whoever can open it administers this Neap. */
export const adminSockets = new WeakSet<object>()

/** Who asks. Errors: UNAUTHENTICATED. */
export async function authenticate({ catalog, secrets }: Context, request: FastifyRequest): Promise<Caller> {
  if (adminSockets.has(request.raw.socket)) {
    const owner = await findDefaultAccount(catalog)
    if (!owner) throw new AppError('UNAVAILABLE', 'This Neap is not set up yet. Try again shortly.')
    return { account: owner, scope: 'admin', apiKeyId: undefined, projectId: null }
  }
  const [, token] = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '') ?? []
  if (!token) throw new AppError('UNAUTHENTICATED', 'Send your API key in the header: Authorization: Bearer <key>')
  const key = isWellFormedApiKey(token) ? await useApiKey(catalog, secrets.hashApiKey(token), request.ip) : undefined
  const account = key && (await findAccount(catalog, key.account_id))
  if (!key || !account)
    throw new AppError(
      'UNAUTHENTICATED',
      'The API key is unknown, expired or revoked. Make another with: npx neap key create',
    )
  return { account, scope: key.scope, apiKeyId: key.id, projectId: key.project_id }
}

/** Errors: FORBIDDEN (scope), NOT_FOUND (a key that is for another project learns nothing of this one). */
export function authorize(caller: Caller, scope: Scope, params: { project_id?: string }): void {
  if (RANK[caller.scope] < RANK[scope]) {
    throw new AppError('FORBIDDEN', `This API key has the scope ${caller.scope}; this needs ${scope}.`)
  }
  if (caller.projectId === null) return
  if (params.project_id === undefined)
    throw new AppError('FORBIDDEN', `This API key is for the project ${caller.projectId} only.`)
  if (params.project_id !== caller.projectId) throw new AppError('NOT_FOUND', `project ${params.project_id} not found`)
}
