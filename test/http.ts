import assert from 'node:assert/strict'
import type { Neap } from './neap.ts'

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown> & { readonly code?: string; readonly message?: string; readonly key?: string }
}

export interface Request {
  readonly key?: string | null
  readonly body?: unknown
  readonly type?: string
  readonly headers?: Record<string, string>
  /** URL of another api process than the first. */
  readonly url?: string
}

/**
 * Sends an HTTP request, with the first API key by default (null: without a key). A body that is not a string is sent
 * as JSON.
 */
export async function send(
  neap: Neap,
  method: string,
  path: string,
  { key, body, type, headers, url = neap.ready.api_url }: Request = {},
): Promise<Answer> {
  const token = key === undefined ? neap.ready.api_key : key
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...headers,
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': type ?? 'application/json' }),
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] }
}

/** Asserts that an answer is an error with this status, code and message, in the form common to all errors. */
export function refused(answer: Answer, status: number, code: string, message: RegExp): void {
  assert.deepEqual([answer.status, answer.body.code], [status, code], answer.body.message)
  assert.match(answer.body.message ?? '', message)
  assert.deepEqual(Object.keys(answer.body).sort(), ['code', 'message', 'request_id'])
  assert.equal(answer.body['request_id'], answer.headers.get('x-request-id'))
}
