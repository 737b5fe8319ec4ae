import type { IncomingHttpHeaders } from 'node:http'
import { type Static, type TSchema, Type } from 'typebox'
import type { Account } from '../catalog/account.ts'
import type { Scope } from '../catalog/api_key.ts'
import type { Person } from '../catalog/person.ts'
import type { Session } from '../catalog/session.ts'
import type { CommandContext } from '../commands/command.ts'
import type { ErrorCode } from '../errors.ts'
import type { OperationFeeds } from './operation_feed.ts'
import type { PasswordChecks } from './password_checks.ts'

type MaybeSchema = TSchema | undefined
type Of<S> = S extends TSchema ? Static<S> : undefined
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** How a caller was authenticated: by the 0600 admin socket, an API key, or the session of a person. */
export type Credential =
  | { readonly kind: 'admin_socket' }
  | { readonly kind: 'api_key'; readonly id: number }
  | { readonly kind: 'session'; readonly id: number; readonly person: Person; readonly session: Session }

/** The authenticated account and the rights of its key or member. */
export interface Caller {
  readonly account: Account
  readonly scope: Scope
  readonly credential: Credential
  /** The only project of an API key; null: all. */
  readonly projectId: string | null
}

/** The name of a credential, the same for all of its requests. Undefined for the admin socket, which has no limits. */
export function credentialName({ credential }: Caller): string | undefined {
  return credential.kind === 'admin_socket' ? undefined : `${credential.kind} ${credential.id}`
}

/** The API key or the person of a request, as audit rows and stored replies name them. */
export function actorOf(caller: Caller | undefined): { apiKeyId: number | undefined; personId: string | undefined } {
  const { credential } = caller ?? {}
  return {
    apiKeyId: credential?.kind === 'api_key' ? credential.id : undefined,
    personId: credential?.kind === 'session' ? credential.person.id : undefined,
  }
}

export interface Contract<P, Q, B, R> {
  readonly summary: string
  /** More than the summary says, for the API document. */
  readonly description?: string
  readonly tag: string
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** Success status; default 200. */
  readonly status?: 200 | 201 | 202
  /** The scope that a key needs; default `read` for GET, `write` for the other methods. */
  readonly scope?: Scope
  /** Admits keys for one project although the path names no project. */
  readonly anyProject?: boolean
  /** The route may revoke keys or change their account: this process then drops its cached keys. */
  readonly changesKeys?: boolean
  /** The route removes stored data: on a full disk it is given room from the reserve. */
  readonly freesDisk?: boolean
  /** A GET that `Prefer: wait` delays until its operation has ended. */
  readonly waits?: boolean
  /** A change of a person's own affairs: it is audited in each of his organizations. */
  readonly ofPerson?: boolean
  /** The body has a password: an Idempotency-Key is not stored, since a hash of the body would be kept with it. */
  readonly takesPassword?: boolean
  /** A GET that returns a secret: it is audited like a change. */
  readonly reveals?: boolean
  /** Limit of the body in bytes, if above `BODY_BYTES`. */
  readonly bodyLimit?: number
  readonly returns: R
  readonly errors: readonly ErrorCode[]
}

/**
 * The context of a handler. For a change, `db` is the transaction of the request: the handler's rows, its operations
 * and its audit row commit together. For a read, `db` is the catalog.
 */
export interface RequestContext extends CommandContext {
  readonly caller: Caller
  /** The client's IP address; empty for a Unix socket. */
  readonly clientAddress: string
  /** Whether the host names of endpoints resolve on this machine, by the last look-up. */
  readonly namesResolve: () => boolean
  /** Aborted before this process closes, and for a read or a stream also when its client disconnects. */
  readonly gone: AbortSignal
  readonly passwords: PasswordChecks
  /** The feeds of operations' events, each read once for all streams of a project. */
  readonly feeds: OperationFeeds
  /** Whether the caller may still ask this, for responses that last. */
  readonly stillIn: () => Promise<boolean>
  /** Closes the connection of a response that its client does not read. */
  readonly cut: () => void
}

interface Input<P, Q, B> {
  readonly params: Of<P>
  readonly query: Of<Q>
  readonly body: Of<B>
  readonly headers: IncomingHttpHeaders
}

type Ask<P, Q, B, Asked> = (request: Input<P, Q, B>, context: RequestContext) => Promise<Asked>
type Handler<P, Q, B, R extends TSchema, Asked> = (
  request: Input<P, Q, B>,
  context: RequestContext,
  asked: Asked,
) => Promise<Static<R>>

export interface Route<
  Key extends string = string,
  P extends MaybeSchema = MaybeSchema,
  Q extends MaybeSchema = MaybeSchema,
  B extends MaybeSchema = MaybeSchema,
  R extends TSchema = TSchema,
> extends Contract<P, Q, B, R> {
  /** `METHOD /path`: the route's name in the server, the OpenAPI document, the audit and the log. */
  readonly key: Key
  /** Asks a compute before the transaction begins, which must not wait for one. */
  readonly ask?: Ask<P, Q, B, unknown>
  readonly handle: Handler<P, Q, B, R, never>
}

/**
 * Declares a route: the contract first, then `.handle()` with its types taken from it. An `.ask()` between them asks a
 * compute before the handler's transaction and passes the answer to the handler.
 */
export function route<
  const Key extends `${Method} /${string}`,
  R extends TSchema,
  P extends TSchema | undefined = undefined,
  Q extends TSchema | undefined = undefined,
  B extends TSchema | undefined = undefined,
>(key: Key, contract: Contract<P, Q, B, R>) {
  return {
    handle: (handle: Handler<P, Q, B, R, undefined>): Route<Key, P, Q, B, R> => ({ key, ...contract, handle }),
    ask: <Asked>(ask: Ask<P, Q, B, Asked>) => ({
      handle: (handle: Handler<P, Q, B, R, Asked>): Route<Key, P, Q, B, R> => ({ key, ...contract, ask, handle }),
    }),
  }
}

/** Return type of a route that sends server-sent events (HTML Living Standard, 9.2) until the client leaves. */
export const EventStream = Type.Unsafe<AsyncIterable<string>>({ type: 'string', description: 'text/event-stream' })

/**
 * Return type of a route that sends lines of JSON while it works. A change of this kind runs outside of a transaction:
 * its audit row is written before the first line, and it takes no `Idempotency-Key`.
 */
export const JsonLines = Type.Unsafe<AsyncIterable<string>>({ type: 'string', description: 'application/x-ndjson' })

/** The media type of a route that answers with a stream; undefined for others. */
export function streamType({ returns }: Pick<Route, 'returns'>): string | undefined {
  if (returns === EventStream) return 'text/event-stream'
  return returns === JsonLines ? 'application/x-ndjson' : undefined
}

export const ErrorBody = Type.Object(
  { request_id: Type.String(), code: Type.String(), message: Type.String() },
  { $id: 'GeneralError' },
)
