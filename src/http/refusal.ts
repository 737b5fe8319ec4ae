import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { insertAudit } from '../catalog/audit.ts'
import { isBusy } from '../catalog/busy.ts'
import type { Context } from '../context.ts'
import { AppError, ERRORS, messageOf } from '../errors.ts'
import { BODY_BYTES } from './bodies.ts'
import { actorOf } from './route.ts'

/** Delay of a 429: a client that retries at once must not cost as much as one that is served. */
const OVER_LIMIT_MS = 500
/** Where the cause of a 429 does not say when it ends: a project's operations end one by one. */
const RETRY_AFTER_SECONDS = 5

/** Converts an error to its HTTP response. */
export async function refuse(
  context: Context,
  thrown: FastifyError | AppError,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const error = toAppError('statusCode' in thrown && thrown.statusCode === 413 ? bodyTooLarge(request) : thrown)
  const { status } = ERRORS[error.code]
  if (status >= 500) request.log.error({ err: error.cause ?? error }, 'request failed')
  if (status === 401) void reply.header('www-authenticate', 'Bearer')
  if (status === 503) void reply.header('retry-after', '1')
  if (status === 429) {
    if (!reply.hasHeader('retry-after')) void reply.header('retry-after', String(RETRY_AFTER_SECONDS))
    await sleep(OVER_LIMIT_MS)
  }
  // Rate-limited requests are not audited: the limit exists to save that work.
  if (request.route && request.audited && request.caller && status !== 503 && status !== 429) {
    await insertAudit(context.catalog, auditEntry(request, request.route, status)).catch((failure: unknown) =>
      request.log.error({ err: failure }, 'a refused request has no audit row'),
    )
  }
  return reply.status(status).send(errorBody(request, error))
}

/** Body limits differ by route. */
function bodyTooLarge({ routeOptions }: FastifyRequest): AppError {
  const kib = (routeOptions.bodyLimit ?? BODY_BYTES) / 1024
  return new AppError('BODY_TOO_LARGE', `The body is over the ${kib} KiB that this request takes.`)
}

export const errorBody = (request: Pick<FastifyRequest, 'id'>, { code, message }: AppError) => ({
  request_id: request.id,
  code,
  message,
})

export function toAppError(error: AppError | FastifyError): AppError {
  if (error instanceof AppError) return error
  if (error.statusCode === 415) return new AppError('UNSUPPORTED_MEDIA_TYPE')
  if (error.validation || error.validationContext || (error.statusCode && error.statusCode < 500))
    return new AppError('INVALID_REQUEST', messageOf(error))
  const { code } = error
  if (OUT_OF_RANGE.has(code))
    return new AppError('INVALID_REQUEST', 'invalid request: a value is out of range', { cause: error })
  if (isBusy(error)) return new AppError('UNAVAILABLE', 'The catalog is busy. Try again shortly.', { cause: error })
  return new AppError('INTERNAL', undefined, { cause: error })
}

/** SQLSTATEs of values that pass the schemas and that Postgres rejects (Postgres manual, appendix A). */
const OUT_OF_RANGE = new Set(['22003', '22008', '22021', '22P02', '22P05'])

export function auditEntry(request: FastifyRequest, action: string, status: number) {
  const { project_id } = (request.params ?? {}) as { project_id?: string }
  return {
    accountId: request.caller?.account.id,
    ...actorOf(request.caller),
    requestId: request.id,
    action,
    projectId: project_id,
    subject: (request.url.split('?')[0] ?? '').slice(0, 300),
    status,
    address: request.clientAddress,
  }
}
