import { urlToHttpOptions } from 'node:url'
import type { Static, TSchema } from 'typebox'
import type { routes } from './http/routes/index.ts'
import { AppError, type ErrorCode } from './errors.ts'

type Scalar = string | number | boolean
type Any = (typeof routes)[number]
/** A route, such as `GET /projects/:project_id`. */
export type RouteKey = Any['key']
type ByKey = { [R in Any as R['key']]: R }
type Of<S> = S extends TSchema ? Static<S> : never
type Field<R, Name extends string> = R extends { readonly [N in Name]?: infer S }
  ? [Of<NonNullable<S>>] extends [never]
    ? {}
    : { [N in Name]: Of<NonNullable<S>> }
  : {}
type Input<R extends Any> = Loose<Field<R, 'params'> & Partial<Field<R, 'query'>> & Field<R, 'body'>>
/** What a route takes: the parameters of its path, its query and its body. */
export type ApiInput<K extends RouteKey> = Input<ByKey[K]>
/** Optional fields may also be undefined; they are not sent. */
type Loose<T> = T extends readonly (infer Item)[]
  ? readonly Loose<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: {} extends Pick<T, Name> ? Loose<T[Name]> | undefined : Loose<T[Name]> }
    : T
/**
 * The location of an API: its Unix socket on this machine, or its URL with a key. The URL may end in the API's path.
 */
export type ApiTarget = { readonly socket: string } | { readonly url: string; readonly key: string }

export interface CallOptions {
  /** Seconds (at most 300) that the API may wait for the operations to end: `Prefer: wait`, RFC 7240. */
  readonly wait?: number
  /** A request that is repeated with the same key has one effect and one reply. */
  readonly idempotencyKey?: string
  /** The organization that the operator asks about; only over the socket. */
  readonly organization?: string | undefined
  /** Seconds without a byte of the answer after which the request fails, besides those of `wait`; 300 unless given. */
  readonly patience?: number
}

/** The API's answer to a route. */
export type ApiResponse<K extends RouteKey> = Static<ByKey[K]['returns']>

export type ApiClient = <K extends RouteKey>(
  key: K,
  input: ApiInput<K>,
  options?: CallOptions,
) => Promise<ApiResponse<K>>

const BASE = '/api/v2'
/** The longest requests wait for a compute. */
const PATIENCE_SECONDS = 300

/**
 * A typed client without generated code: the key is the route, the types come from its declaration. Errors: AppError
 * with the API's code and message; UNAVAILABLE (the answer is not from the API); errors of the connection.
 */
export function makeClient(target: ApiTarget): ApiClient {
  return async (key, input, options = {}) => {
    const [method, template] = key.split(' ') as [string, string]
    const {
      params = {},
      query,
      body,
    } = input as { params?: Record<string, Scalar>; query?: Record<string, Scalar | undefined>; body?: unknown }
    const path = template.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(params[name] ?? '')))
    const search = new URLSearchParams(
      Object.entries(query ?? {}).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, String(value)] as [string, string]],
      ),
    )
    const { status, text } = await send(
      target,
      method,
      `${path}${search.size > 0 ? `?${search.toString()}` : ''}`,
      body,
      options,
    )
    const answer = parse(text)
    if (answer === undefined || (status >= 400 && answer.message === undefined))
      throw new AppError('UNAVAILABLE', `${key} answered ${status} with a body that is not from this API.`)
    if (status >= 400) throw new AppError(answer.code ?? 'INTERNAL', answer.message)
    return answer as never
  }
}

function parse(text: string): { code?: ErrorCode; message?: string } | undefined {
  try {
    return JSON.parse(text) as { code?: ErrorCode; message?: string }
  } catch {
    return undefined
  }
}

async function send(
  target: ApiTarget,
  method: string,
  path: string,
  body: unknown,
  { wait, idempotencyKey, organization, patience = PATIENCE_SECONDS }: CallOptions,
): Promise<{ status: number; text: string }> {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const address = 'socket' in target ? undefined : new URL(target.url)
  // Without a name for TLS, Node asks whether its default one is an IPv6 address, which takes milliseconds.
  const where =
    'socket' in target ? { socketPath: target.socket, servername: '' } : urlToHttpOptions(new URL(target.url))
  const base = address && address.pathname !== '/' ? address.pathname.replace(/\/+$/, '') : BASE
  // Not imported: that reads every export of node:http and loads its WebSocket, which takes longer than the request.
  const { request } = process.getBuiltinModule(address?.protocol === 'https:' ? 'node:https' : 'node:http')
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        ...where,
        method,
        path: base + path,
        headers: {
          accept: 'application/json',
          ...('key' in target && { authorization: `Bearer ${target.key}` }),
          ...(wait !== undefined && { prefer: `wait=${wait}` }),
          ...(organization !== undefined && { 'neap-organization': organization }),
          ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
          ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
        },
      },
      (response) => {
        let received = ''
        response.setEncoding('utf8').on('data', (part: string) => (received += part))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text: received }))
        response.on('error', reject)
      },
    )
    sent.setTimeout(1_000 * (patience + (wait ?? 0)), () =>
      sent.destroy(new AppError('UNAVAILABLE', `The API has not answered ${method} ${path} within ${patience} s.`)),
    )
    sent.on('error', reject)
    sent.end(text)
  })
}
