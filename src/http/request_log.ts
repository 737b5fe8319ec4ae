import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { AnsweredRequest } from '../observe/http_metrics.ts'
import { actorOf } from './route.ts'

/** An operation that a request created. */
interface Asked {
  readonly id: string
  readonly action: string
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The operations in the response to a change. */
    operations: readonly Asked[] | undefined
    /** The response lasts as long as its client stays. */
    endless: boolean
  }
}

/**
 * Logs one line and counts one request for each response, refusals too. The route is logged with its placeholders and
 * without a query, because addresses may hold secrets. Bodies and headers are never logged.
 */
export function logRequests(app: FastifyInstance, log: Logger, count: (answered: AnsweredRequest) => void): void {
  app.decorateRequest('operations', undefined)
  app.decorateRequest('endless', false)
  app.addHook('onResponse', async (request, reply) => {
    const { method, endless } = request
    // Clients can invent any number of unknown paths: they share one label.
    const route = request.routeOptions.url ?? 'none'
    const status = reply.statusCode
    count({ method, route, status, seconds: reply.elapsedTime / 1000, endless })
    // Polling clients repeat their reads: log successful ones at debug.
    const level = (method === 'GET' || method === 'HEAD') && status < 400 ? 'debug' : 'info'
    if (!log.isLevelEnabled(level)) return
    const { project_id } = (request.params ?? {}) as { project_id?: string }
    const { caller, operations } = request
    const by = actorOf(caller)
    request.log[level](
      {
        method,
        route,
        status,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        ...(caller && { account: caller.account.id, api_key: by.apiKeyId, person: by.personId }),
        // After a 404 the client may have invented the id.
        ...(project_id !== undefined && caller && status !== 404 && { project: project_id }),
        ...(operations && { operations: operations.map(({ id, action }) => ({ id, action })) }),
      },
      'request',
    )
  })
}

/** Notes the operations in the response to a change, for the log. */
export function noteOperations(request: FastifyRequest, body: unknown): void {
  const { operations } = (body ?? {}) as { operations?: unknown }
  if (Array.isArray(operations) && operations.length > 0) request.operations = operations as Asked[]
}
