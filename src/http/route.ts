import type { IncomingHttpHeaders } from 'node:http'
import { type Static, type TSchema, Type } from 'typebox'
import type { Account } from '../catalog/account.ts'
import type { Scope } from '../catalog/api_key.ts'
import type { CommandContext } from '../commands/command.ts'
import type { ErrorCode } from '../errors.ts'
import type { OperationFeeds } from './operation_feed.ts'

type MaybeSchema = TSchema | undefined
type Of<S> = S extends TSchema ? Static<S> : undefined
type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** Who asks: the account, and what its key may do. Over the local admin socket there is no key. */
export interface Caller {
  readonly account: Account
  readonly scope: Scope
  readonly apiKeyId: number | undefined
  readonly projectId: string | null
}

export interface Contract<P, Q, B, R> {
  readonly summary: string
  readonly tag: string
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** Success status, 200 unless said. */
  readonly status?: 200 | 201
  /** What a key must be allowed to: `read` for GET and `write` for all else, unless said. */
  readonly scope?: Scope
  /** Lets in keys that are for one project only, although the path names none. */
  readonly anyProject?: boolean
  /** It may put keys out of force: this process then looks each up again. */
  readonly changesKeys?: boolean
  /** A GET whose answer is put off with `Prefer: wait` until its operation has ended. */
  readonly waits?: boolean
  /** A GET that answers a secret: it is audited as a change is. */
  readonly reveals?: boolean
  /** Bytes that its body may have, where that is more than `BODY_BYTES`. */
  readonly bodyLimit?: number
  readonly returns: R
  readonly errors: readonly ErrorCode[]
}

/**
 * What a handler works with. `db` is the transaction of the request where the route changes something: what the handler
 * writes, its operations and its audit row commit together. Where it only reads, it is the catalog.
 */
export interface RequestContext extends CommandContext {
  readonly caller: Caller
  /** Whether the host names of endpoints resolve on this machine, as far as is known. */
  readonly namesResolve: () => boolean
  /** Ends when the client of a GET has gone, or this process is about to. */
  readonly gone: AbortSignal
  /** The operations' events, read once for all streams of a project. */
  readonly feeds: OperationFeeds
  /** Whether the key would still be let in, for answers that last. */
  readonly stillIn: () => Promise<boolean>
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
  /** `METHOD /path`: the route's name everywhere: server, document, audit, log. */
  readonly key: Key
  /** What is asked of a compute before the transaction begins, which must wait for none. */
  readonly ask?: Ask<P, Q, B, unknown>
  readonly handle: Handler<P, Q, B, R, never>
}

/**
 * Declares a route: the contract first, then `.handle()` with its types taken from it. Between them `.ask()`, where the handler needs the
 * answer of a compute: it runs before the handler's transaction.
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

/** What a route returns that answers with server-sent events (HTML Living Standard, 9.2) for as long as the client stays. */
export const EventStream = Type.Unsafe<AsyncIterable<string>>({ type: 'string', description: 'text/event-stream' })

export const ErrorBody = Type.Object(
  { request_id: Type.String(), code: Type.String(), message: Type.String() },
  { $id: 'GeneralError' },
)
