import { Readable } from 'node:stream'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { TSchema } from 'typebox'
import { auditRow, insertAudit, personAuditRows } from '../catalog/audit.ts'
import { isDiskFull } from '../catalog/away.ts'
import type { Db } from '../catalog/catalog.ts'
import type { Context } from '../context.ts'
import { withReserve } from '../disk_reserve.ts'
import { AppError, type ErrorCode, ERRORS } from '../errors.ts'
import { admit } from './admit.ts'
import { type Authenticate, authorize } from './auth.ts'
import { BODY_BYTES } from './bodies.ts'
import { idempotencyKeyOf, once, type Reply } from './idempotency.ts'
import type { KeyUse } from './key_use.ts'
import { threadCpuMs } from './thread_cpu.ts'
import type { OperationFeeds } from './operation_feed.ts'
import type { PasswordChecks } from './password_checks.ts'
import { awaited, preferredWait } from './prefer.ts'
import type { Limit } from './rate_limit.ts'
import { auditEntry, errorBody, toAppError } from './refusal.ts'
import { noteOperations } from './request_log.ts'
import {
  actorOf,
  type Caller,
  credentialName,
  ErrorBody,
  EventStream,
  type RequestContext,
  type Route,
  streamType,
} from './route.ts'

/** CPU time of sending a text to one stream of a project. */
const STREAMED_MS = 0.05

export const BASE = '/api/v2'

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | undefined
    route: string | undefined
    /** The request is audited, also when it is refused, except with 429 or 503. */
    audited: boolean
  }
}

/** The shared gates and sources of all routes. */
export interface Gates {
  readonly authenticate: Authenticate
  readonly limit: Limit
  readonly use: KeyUse
  readonly feeds: OperationFeeds
  readonly passwords: PasswordChecks
  readonly namesResolve: () => boolean
  /** Aborted before the server closes, since closing waits for every response. */
  readonly closing: AbortSignal
}

/** Serves a declared route. A change runs in one transaction with its audit row. */
export function mount(
  app: FastifyInstance,
  route: Route,
  context: Context,
  { authenticate, limit, use, feeds, passwords, namesResolve, closing }: Gates,
): void {
  const [method, path] = route.key.split(' ') as [string, string]
  const status = route.status ?? 200
  const reads = method === 'GET'
  const streams = streamType(route)
  app.route({
    method,
    url: BASE + path,
    schema: schemaOf(app, route, status),
    bodyLimit: route.bodyLimit ?? BODY_BYTES,
    // The handler answers a request that its schema refuses, because the Idempotency-Key is known there.
    attachValidation: true,
    onRequest: async (request, reply) => {
      const caller = await admit(request, reply, route, { authenticate, limit })
      use.enter(caller, route.returns === EventStream ? 'streams' : 'requests', reply)
    },
    handler: async (request, reply) => {
      const answer = reads ? read : streams ? begin : change
      const { status: code, body, replayed } = await answer(request, reply)
      // Before the response: when the client has it, a revoked key works no more.
      if (route.changesKeys) authenticate.forget()
      void reply.status(code)
      if (replayed) void reply.header('idempotency-replayed', 'true')
      else if (!reads) noteOperations(request, body)
      request.endless = streams !== undefined
      if (streams) return stream(request, reply.type(streams), charged(request, body as AsyncIterable<string>))
      const seconds = reads && !route.waits ? undefined : preferredWait(request)
      if (seconds === undefined || code >= 400) return body
      void reply.header('preference-applied', `wait=${seconds}`)
      return awaited(
        { ...context, log: request.log as Context['log'] },
        body,
        seconds,
        AbortSignal.any([untilGone(reply), closing]),
      )
    },
  })

  async function* charged({ caller }: FastifyRequest, events: AsyncIterable<string>): AsyncGenerator<string> {
    for await (const text of events) {
      use.charge(caller, STREAMED_MS)
      yield text
    }
  }

  function contextOf(request: FastifyRequest, reply: FastifyReply, db: Db): RequestContext {
    const caller = request.caller as Caller
    // A member may have lost the organization or the role, while his session lasts.
    const stillIn = async (): Promise<boolean> => {
      try {
        const now = await authenticate(request)
        authorize(now, route, request.params as { project_id?: string })
        return credentialName(now) === credentialName(caller) && now.account.id === caller.account.id
      } catch (error) {
        // While the catalog is away, no rights change, and queries go on.
        return !(error instanceof AppError) || error.code === 'UNAVAILABLE'
      }
    }
    return {
      ...context,
      db,
      caller,
      account: caller.account,
      clientAddress: request.clientAddress,
      passwords,
      feeds,
      namesResolve,
      stillIn,
      cut: () => void reply.raw.destroy(),
      // Created on demand: most responses are ready before a client could disconnect. A change continues without its
      // client.
      get gone() {
        return reads || streams ? AbortSignal.any([untilGone(reply), closing]) : closing
      },
    }
  }

  async function perform(request: FastifyRequest, reply: FastifyReply, db: Db, asked?: unknown): Promise<Reply> {
    if (request.validationError) throw toAppError(request.validationError as FastifyError)
    const began = threadCpuMs()
    const answer = route.handle(inputOf(request), contextOf(request, reply, db), asked as never)
    use.charge(request.caller, threadCpuMs() - began)
    return { status, body: await answer }
  }

  async function read(request: FastifyRequest, reply: FastifyReply): Promise<Reply> {
    const made = await perform(request, reply, context.catalog)
    // Before the response: a secret is given only if its audit row is written.
    if (route.reveals) await insertAudit(context.catalog, auditEntry(request, route.key, made.status))
    return made
  }

  /** A change that streams: its audit row is there before its first line, and no transaction while it lasts. */
  async function begin(request: FastifyRequest, reply: FastifyReply): Promise<Reply> {
    if (idempotencyKeyOf(request) !== undefined)
      throw new AppError('INVALID_REQUEST', 'This request takes no Idempotency-Key: its answer is not kept.')
    const made = await perform(request, reply, context.catalog)
    await insertAudit(context.catalog, auditEntry(request, route.key, made.status))
    return made
  }

  async function change(request: FastifyRequest, reply: FastifyReply): Promise<Reply> {
    const key = route.takesPassword ? undefined : idempotencyKeyOf(request)
    // A compute may be slow to answer: ask it outside the transaction.
    const asked = request.validationError
      ? undefined
      : await route.ask?.(inputOf(request), contextOf(request, reply, context.catalog))
    const changed = () => transact(request, reply, key, asked)
    return route.freesDisk ? withReserve(context.config, isDiskFull, changed) : changed()
  }

  function transact(
    request: FastifyRequest,
    reply: FastifyReply,
    key: string | undefined,
    asked: unknown,
  ): Promise<Reply> {
    const audited = route.ofPerson ? personAuditRows : auditRow
    const turn = { requestId: request.id, project: (request.params as { project_id?: string }).project_id }
    return context.catalog.transaction(async (tx) => {
      const performed = async () => {
        const made = await perform(request, reply, tx, asked)
        tx.last(audited(auditEntry(request, route.key, made.status)))
        return made
      }
      if (key === undefined) return performed()
      const caller = request.caller as Caller
      const slot = {
        accountId: caller.account.id,
        ...actorOf(caller),
        method,
        path: request.url.split('?')[0] ?? '',
        key,
      }
      const answer = await once(tx, context.secrets, slot, request, performed, async (error) => {
        const refused = { status: ERRORS[error.code].status, body: errorBody(request, error) }
        await insertAudit(tx, auditEntry(request, route.key, refused.status))
        return refused
      })
      // The stored reply may hold a password.
      if (answer.replayed === 'to another caller') await insertAudit(tx, auditEntry(request, route.key, answer.status))
      return answer
    }, turn)
  }
}

const inputOf = ({ params, query, body, headers }: FastifyRequest): never => ({ params, query, body, headers }) as never

/** Aborted when the response closes, in particular when its client disconnects. */
function untilGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.once('close', () => gone.abort())
  if (reply.raw.destroyed) gone.abort()
  return gone.signal
}

function stream(request: FastifyRequest, reply: FastifyReply, events: AsyncIterable<string>): FastifyReply {
  const body = Readable.from(events, { objectMode: false, encoding: 'utf8' })
  body.on('error', (error) => request.log.debug({ err: error }, 'a stream ended'))
  return reply.header('cache-control', 'no-cache').send(body)
}

function schemaOf(app: FastifyInstance, route: Route, status: number) {
  const named = (schema: TSchema): TSchema => {
    const id = (schema as { readonly $id?: string }).$id
    if (!id) return schema
    if (!app.getSchema(id)) app.addSchema(schema)
    return { $ref: `${id}#` }
  }
  const common: ErrorCode[] = ['INVALID_REQUEST', 'UNAUTHENTICATED', 'FORBIDDEN', 'RATE_LIMITED', 'UNAVAILABLE']
  const codes = new Set<ErrorCode>([...route.errors, ...common])
  const streams = streamType(route)
  return {
    summary: route.summary,
    ...(route.description !== undefined && { description: route.description.replaceAll('\n', ' ') }),
    tags: [route.tag],
    ...(route.params && { params: route.params }),
    ...(route.query && { querystring: route.query }),
    ...(route.body && { body: route.body }),
    response: {
      ...(streams
        ? {
            [status]: {
              description: route.returns === EventStream ? 'Server-sent events' : 'Lines of JSON',
              content: { [streams]: { schema: route.returns } },
            },
          }
        : { [status]: named(route.returns) }),
      ...Object.fromEntries([...codes].map((code) => [ERRORS[code].status, named(ErrorBody)])),
    },
  }
}
