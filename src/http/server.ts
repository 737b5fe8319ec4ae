import swagger from '@fastify/swagger'
import Fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import type { TSchema } from 'typebox'
import { insertAudit } from '../catalog/audit.ts'
import type { Context } from '../context.ts'
import { AppError, type ErrorCode, ERRORS, messageOf } from '../errors.ts'
import { newRequestId } from '../ids.ts'
import { authenticate, authorize } from './auth.ts'
import { acceptBodies } from './bodies.ts'
import { type Caller, ErrorBody, type Route } from './route.ts'
import { routes } from './routes/index.ts'
import { compileValidator } from './validation.ts'

export const BASE = '/api/v2'

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | undefined
    route: string | undefined
  }
}

/** The API over HTTP. Knows nothing of where it listens. */
export async function buildServer(context: Context): Promise<FastifyInstance> {
  const loggerInstance: FastifyBaseLogger = context.log
  const app = Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: newRequestId,
    bodyLimit: 1024 * 1024,
    requestTimeout: 60_000,
    routerOptions: { maxParamLength: 256 },
  })
  app.setValidatorCompiler(compileValidator)
  app.decorateRequest('caller', undefined)
  app.decorateRequest('route', undefined)
  acceptBodies(app)
  app.addHook('onRequest', async (request, reply) => {
    reply.headers({ 'x-request-id': request.id, 'x-neon-ret-request-id': request.id })
  })
  app.addHook('onResponse', async (request, reply) => {
    request.log.info(
      {
        method: request.method,
        url: request.url,
        status: reply.statusCode,
        ms: reply.elapsedTime,
        account: request.caller?.account.id,
      },
      'request',
    )
  })
  app.setErrorHandler((error: FastifyError | AppError, request, reply) => refuse(context, error, request, reply))
  app.setNotFoundHandler((request) => {
    if (/^\/(api\/)?v1(\/|$)/.test(request.url)) {
      throw new AppError(
        'API_VERSION_GONE',
        `Version 1 of the API is gone: use ${BASE}${request.url.replace(/^\/(api\/)?v1/, '')}`,
      )
    }
    throw new AppError('NOT_FOUND', `There is no ${request.method} ${request.url.split('?')[0]}.`)
  })
  await app.register(swagger, {
    openapi: { openapi: '3.1.0', info: { title: 'Neap management API', version: '2' }, servers: [{ url: BASE }] },
    refResolver: { buildLocalReference: (json) => json['$id'] as string },
  })
  app.get(`${BASE}/openapi.json`, { schema: { hide: true } }, async () => app.swagger())
  for (const route of routes) mount(app, route, context)
  return app
}

/** The one place where an error becomes an HTTP answer. */
async function refuse(
  context: Context,
  thrown: FastifyError | AppError,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const error = toAppError(thrown)
  const { status } = ERRORS[error.code]
  if (status >= 500) request.log.error({ err: error.cause ?? error }, 'request failed')
  if (status === 401) void reply.header('www-authenticate', 'Bearer')
  if (status === 503) void reply.header('retry-after', '1')
  if (request.route && !request.route.startsWith('GET ') && request.caller && status !== 503) {
    await insertAudit(context.catalog, auditEntry(request, request.route, status)).catch((failure: unknown) =>
      request.log.error({ err: failure }, 'a refused request has no audit row'),
    )
  }
  return reply.status(status).send({ request_id: request.id, code: error.code, message: error.message })
}

function toAppError(error: FastifyError | AppError): AppError {
  if (error instanceof AppError) return error
  if (error.statusCode === 413) return new AppError('BODY_TOO_LARGE', 'The request body is over 1 MiB.')
  if (error.statusCode === 415) return new AppError('UNSUPPORTED_MEDIA_TYPE')
  if (error.validation || (error.statusCode && error.statusCode < 500))
    return new AppError('INVALID_REQUEST', messageOf(error))
  return new AppError('INTERNAL', undefined, { cause: error })
}

function auditEntry(request: FastifyRequest, action: string, status: number) {
  const { project_id } = (request.params ?? {}) as { project_id?: string }
  return {
    accountId: request.caller?.account.id,
    apiKeyId: request.caller?.apiKeyId,
    requestId: request.id,
    action,
    projectId: project_id,
    subject: (request.url.split('?')[0] ?? '').slice(0, 300),
    status,
    address: request.ip ?? '',
  }
}

function mount(app: FastifyInstance, route: Route, context: Context): void {
  const [method, path] = route.key.split(' ') as [string, string]
  const named = (schema: TSchema): TSchema => {
    const id = (schema as { readonly $id?: string }).$id
    if (!id) return schema
    if (!app.getSchema(id)) app.addSchema(schema)
    return { $ref: `${id}#` }
  }
  const reads = method === 'GET'
  const scope = route.scope ?? (reads ? 'read' : 'write')
  const status = route.status ?? 200
  const codes = new Set<ErrorCode>([...route.errors, 'INVALID_REQUEST', 'UNAUTHENTICATED', 'FORBIDDEN'])
  app.route({
    method,
    url: BASE + path,
    schema: {
      summary: route.summary,
      tags: [route.tag],
      ...(route.params && { params: route.params }),
      ...(route.query && { querystring: route.query }),
      ...(route.body && { body: route.body }),
      response: {
        [status]: named(route.returns),
        ...Object.fromEntries([...codes].map((code) => [ERRORS[code].status, named(ErrorBody)])),
      },
    },
    onRequest: async (request) => {
      request.route = route.key
      request.caller = await authenticate(context, request)
      authorize(request.caller, scope, request.params as { project_id?: string })
    },
    handler: async (request, reply) => {
      const caller = request.caller as Caller
      const input = { params: request.params, query: request.query, body: request.body } as never
      void reply.status(status)
      if (reads) return route.handle(input, { ...context, db: context.catalog, caller })
      return context.catalog.transaction(async (tx) => {
        const answer = await route.handle(input, { ...context, db: tx, caller })
        await insertAudit(tx, auditEntry(request, route.key, status))
        return answer
      })
    },
  })
}
