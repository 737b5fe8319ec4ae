import Fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { startRefusalWriter } from '../catalog/refusal_writer.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'
import { newRequestId } from '../ids.ts'
import { createHttpMetrics } from '../observe/http_metrics.ts'
import { createAuthenticator } from './auth.ts'
import { knowClients } from './client_address.ts'
import { acceptBodies, BODY_BYTES } from './bodies.ts'
import { limitConnections } from './connection_limit.ts'
import { limitOpenConnections } from './open_connections.ts'
import { serveOidc } from './console/oidc.ts'
import { servePages } from './console/pages.ts'
import { serveInvitations } from './console/invitations.ts'
import { serveSignIn } from './console/sign_in.ts'
import { serveDocuments } from './documents.ts'
import { chargeRequests, createKeyUse } from './key_use.ts'
import { createPipelineLimit } from '../pipelining.ts'
import { answerOtherMethods } from './methods.ts'
import { BASE, mount } from './mount.ts'
import { mountNotSupported } from './mount_not_supported.ts'
import { watchNames } from './names.ts'
import { createOperationFeeds } from './operation_feed.ts'
import { createPasswordChecks } from './password_checks.ts'
import { createLimit } from './rate_limit.ts'
import { refuse } from './refusal.ts'
import { logRequests } from './request_log.ts'
import { routes } from './routes/index.ts'
import { answerMalformed } from './malformed_request.ts'
import { compileValidator } from './validation.ts'

const HEADERS_MS = 10_000
/** For headers and body together; bodies are small. */
const REQUEST_MS = 30_000

const VERSION_1 = /^\/(?:api\/)?v1(?=[/?]|$)/

/** The API over HTTP, independent of the addresses that it listens on. */
export async function buildServer(context: Context): Promise<FastifyInstance> {
  const loggerInstance: FastifyBaseLogger = context.log
  const app = Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    genReqId: newRequestId,
    bodyLimit: BODY_BYTES,
    // Node checks these timeouts at an interval (Node's manual, http: `connectionsCheckingInterval`).
    http: { headersTimeout: HEADERS_MS, connectionsCheckingInterval: 1_000 },
    requestTimeout: REQUEST_MS,
    routerOptions: { maxParamLength: 256 },
    // Keep only the path of a URI in absolute form (RFC 9112, section 3.2.2): audit rows and idempotency keys use it.
    rewriteUrl: ({ url = '' }) => url.replace(/^https?:\/\/[^/?#]*/i, '') || '/',
    // Errors before routing, such as broken percent-encoding: no hook runs for them.
    frameworkErrors: (error, request, reply) => {
      void named(request, reply)
      void refuse(context, error, request, reply)
    },
    clientErrorHandler: answerMalformed,
  })
  app.setValidatorCompiler(compileValidator)
  app.decorateRequest('caller', undefined)
  knowClients(app, context.config.forwardedForFrom)
  app.decorateRequest('route', undefined)
  app.decorateRequest('audited', false)
  const isWithinPipeline = createPipelineLimit()
  app.addHook('onRequest', ({ raw }, reply, done) => {
    if (isWithinPipeline(raw, reply.raw)) done()
    else reply.hijack()
  })
  const use = createKeyUse(context.config)
  acceptBodies(app, use)
  chargeRequests(app, use)
  app.addHook('onRequest', async (request, reply) => {
    void named(request, reply)
    // Before authentication, and before the body is read.
    if (VERSION_1.test(request.url))
      throw new AppError(
        'API_VERSION_GONE',
        `Version 1 of the API is gone: use ${BASE}${request.url.replace(VERSION_1, '')}`,
      )
  })
  limitConnections(app, context.config)
  limitOpenConnections(app)
  logRequests(app, context.log, createHttpMetrics(context.registry))
  app.setErrorHandler((error: FastifyError | AppError, request, reply) => refuse(context, error, request, reply))
  answerOtherMethods(app)
  await serveDocuments(app, BASE)
  const closing = new AbortController()
  app.addHook('preClose', async () => closing.abort())
  const refusals = startRefusalWriter(context.catalog, (error) =>
    context.log.debug({ err: error }, 'could not record refused keys; they are recorded later'),
  )
  app.addHook('onClose', () => refusals.stop())
  const gates = {
    authenticate: await createAuthenticator(context, refusals),
    limit: createLimit(context.config),
    use,
    feeds: await createOperationFeeds(context.catalog),
    passwords: createPasswordChecks(),
    refusals,
    namesResolve: await watchNames(context.config),
    closing: closing.signal,
  }
  servePages(app)
  serveSignIn(app, context, gates)
  serveOidc(app, context, gates)
  serveInvitations(app, context, gates)
  for (const route of routes) mount(app, route, context, gates)
  mountNotSupported(app, gates)
  return app
}

/** Adds the request's id to its response. */
function named({ id }: FastifyRequest, reply: FastifyReply): FastifyReply {
  return reply.headers({ 'x-request-id': id, 'x-neon-ret-request-id': id })
}
