import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { ownerOf } from '../network.ts'
import { type Authenticate, authorize } from './auth.ts'
import type { Limit } from './rate_limit.ts'
import { type Caller, credentialName, type Route } from './route.ts'

/**
 * The first gates of every operation, before its body is read: key, rate limit, scope.
 * Errors: UNAUTHENTICATED, RATE_LIMITED, FORBIDDEN, NOT_FOUND (another project than that of the key).
 */
export async function admit(
  request: FastifyRequest,
  reply: FastifyReply,
  route: Pick<Route, 'key' | 'tag' | 'scope' | 'anyProject' | 'reveals'>,
  { authenticate, limit }: { readonly authenticate: Authenticate; readonly limit: Limit },
): Promise<Caller> {
  request.route = route.key
  request.audited = !route.key.startsWith('GET ') || route.reveals === true
  const caller = await authenticate(request).catch((error: unknown) => {
    // Attempts are counted by address: a key that could not be looked up identifies no account.
    if (error instanceof AppError && error.code === 'UNAUTHENTICATED')
      limit(reply, ownerOf(request.clientAddress), 'unauthenticated')
    throw error
  })
  request.caller = caller
  const name = credentialName(caller)
  if (name !== undefined) limit(reply, name, route.tag)
  authorize(caller, route, request.params as { project_id?: string })
  return caller
}
