import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { BlockList, LookupFunction } from 'node:net'
import { addressesOf, NotDelivered, type Resolve, systemResolve } from './address.ts'

const KEPT_BYTES = 4096

export interface Response {
  readonly status: number
  /** The beginning of what it said. */
  readonly text: string
}

export interface PostOptions {
  /** Networks beyond the public ones. */
  readonly allowed: BlockList
  /** For all of it: name, connection, answer. */
  readonly timeoutMs: number
  readonly resolve?: Resolve
  /** Breaks it off. */
  readonly signal?: AbortSignal
}

/**
 * Sends a body as JSON and takes the answer, whatever it is; a redirect is an answer too. Each request has a connection of its own, to an
 * address that has just been judged. Errors: NotDelivered; the signal's reason.
 */
export async function post(
  target: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  { allowed, timeoutMs, resolve = systemResolve, signal }: PostOptions,
): Promise<Response> {
  const late = AbortSignal.timeout(timeoutMs)
  const over = signal ? AbortSignal.any([late, signal]) : late
  try {
    const url = new URL(target)
    const addresses = await unless(over, addressesOf(url, allowed, resolve))
    const response = await request(url, headers, body, over, (_host, { all }, found) => {
      if (all) found(null, [...addresses])
      else found(null, addresses[0]?.address ?? '', addresses[0]?.family)
    })
    return { status: response.statusCode ?? 0, text: await beginning(response) }
  } catch (error) {
    signal?.throwIfAborted()
    if (late.aborted) throw new NotDelivered(`no answer within ${timeoutMs / 1000} s`, { cause: error })
    throw error instanceof NotDelivered ? error : new NotDelivered(reason(error), { cause: error })
  }
}

function request(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
  lookup: LookupFunction,
): Promise<IncomingMessage> {
  return new Promise((answered, failed) => {
    const { request: open } = url.protocol === 'https:' ? https : http
    open(url, {
      method: 'POST',
      agent: false,
      lookup,
      signal,
      headers: { ...headers, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    })
      .on('response', answered)
      .on('error', failed)
      .end(body)
  })
}

/** What is said beyond it is not read. One who has said how it went and then speaks slowly has answered all the same. */
async function beginning(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  let length = 0
  try {
    for await (const part of response as AsyncIterable<Buffer>) {
      parts.push(part)
      length += part.length
      if (length >= KEPT_BYTES) break
    }
  } catch {
    // What has come will do.
  }
  response.destroy()
  // Postgres keeps no NUL in a text.
  return Buffer.concat(parts).subarray(0, KEPT_BYTES).toString('utf8').replaceAll('\0', '\ufffd')
}

/** Waits for something that cannot be broken off, for as long as the signal lets it. */
async function unless<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const over = Promise.withResolvers<never>()
  const end = (): void => over.reject(signal.reason as Error)
  signal.addEventListener('abort', end)
  try {
    return await Promise.race([promise, over.promise])
  } finally {
    signal.removeEventListener('abort', end)
  }
}

function reason(error: unknown): string {
  const { code = '' } = error as { code?: string }
  if (code === 'ECONNREFUSED') return 'the connection was refused'
  if (/CERT|TLS|SSL|EPROTO|SELF_SIGNED|UNABLE_TO/.test(code)) return `no secure connection (${code})`
  if (code.startsWith('HPE_')) return 'what answered did not speak HTTP'
  return 'the connection failed'
}
