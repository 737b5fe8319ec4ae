import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { AnsweredRequest } from '../observe/http_metrics.ts'

/** An operation that a request has asked for. */
interface Asked {
  readonly id: string
  readonly action: string
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The operations in the answer of a request that changed something. */
    operations: readonly Asked[] | undefined
    /** Its answer lasts as long as the client stays. */
    endless: boolean
  }
}

/**
 * One line and one count for each request that was answered, refused ones too. The route stands with its placeholders and no query: what
 * stands in an address may be secret. Bodies and headers are never logged.
 */
export function logRequests(app: FastifyInstance, log: Logger, count: (answered: AnsweredRequest) => void): void {
  app.decorateRequest('operations', undefined)
  app.decorateRequest('endless', false)
  app.addHook('onResponse', async (request, reply) => {
    const { method, endless } = request
    // Of what there is no route for, the address is anybody's invention.
    const route = request.routeOptions.url ?? 'none'
    const status = reply.statusCode
    count({ method, route, status, seconds: reply.elapsedTime / 1000, endless })
    // What only read something is asked for again and again by clients that poll: that is no news.
    const level = (method === 'GET' || method === 'HEAD') && status < 400 ? 'debug' : 'info'
    if (!log.isLevelEnabled(level)) return
    const { project_id } = (request.params ?? {}) as { project_id?: string }
    const { caller, operations } = request
    request.log[level](
      {
        method,
        route,
        status,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        ...(caller && { account: caller.account.id, api_key: caller.apiKeyId }),
        // One that is none of the caller's is what they made up.
        ...(project_id !== undefined && caller && status !== 404 && { project: project_id }),
        ...(operations && { operations: operations.map(({ id, action }) => ({ id, action })) }),
      },
      'request',
    )
  })
}

/** Notes for the log what the answer of a change asks the worker for. */
export function noteOperations(request: FastifyRequest, body: unknown): void {
  const { operations } = (body ?? {}) as { operations?: unknown }
  if (Array.isArray(operations) && operations.length > 0) request.operations = operations as Asked[]
}
