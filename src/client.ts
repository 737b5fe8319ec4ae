import { request } from 'node:http'
import type { Static, TSchema } from 'typebox'
import type { routes } from './http/routes/index.ts'
import { AppError, type ErrorCode } from './errors.ts'

type Scalar = string | number | boolean
type Any = (typeof routes)[number]
type Key = Any['key']
type ByKey = { [R in Any as R['key']]: R }
type Of<S> = S extends TSchema ? Static<S> : never
type Field<R, Name extends string> = R extends { readonly [N in Name]?: infer S }
  ? [Of<NonNullable<S>>] extends [never]
    ? {}
    : { [N in Name]: Of<NonNullable<S>> }
  : {}
type Input<R extends Any> = Field<R, 'params'> & Partial<Field<R, 'query'>> & Field<R, 'body'>
type Answer<K extends Key> = Static<ByKey[K]['returns']>

/** Where an API is: its Unix socket on this machine, or its address with a key. */
export type Target = { readonly socket: string } | { readonly url: string; readonly key: string }

export type Client = <K extends Key>(key: K, input: Input<ByKey[K]>) => Promise<Answer<K>>

/** A typed client without generated code: the key is the route, the types come from its declaration. Errors: AppError with the API's code and message. */
export function makeClient(target: Target): Client {
  return async (key, input) => {
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
      `/api/v2${path}${search.size > 0 ? `?${search.toString()}` : ''}`,
      body,
    )
    const answer = JSON.parse(text) as { code?: ErrorCode; message?: string }
    if (status >= 400) throw new AppError(answer.code ?? 'INTERNAL', answer.message ?? `${key} answered ${status}`)
    return answer as never
  }
}

function send(target: Target, method: string, path: string, body: unknown): Promise<{ status: number; text: string }> {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const where = 'socket' in target ? { socketPath: target.socket } : urlOptions(target.url)
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        ...where,
        method,
        path,
        headers: {
          accept: 'application/json',
          ...('key' in target && { authorization: `Bearer ${target.key}` }),
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
    sent.on('error', reject)
    sent.end(text)
  })
}

function urlOptions(url: string) {
  const { hostname, port } = new URL(url)
  return { host: hostname, port }
}
