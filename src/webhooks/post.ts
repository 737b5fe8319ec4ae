import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { BlockList, LookupFunction } from 'node:net'
import { withSignal } from '../race.ts'
import { addressesOf, NotDelivered, type Resolve, systemResolve } from './address.ts'

const KEPT_BYTES = 4096

export interface Response {
  readonly status: number
  /** The beginning of the answer's body. */
  readonly text: string
}

export interface PostOptions {
  /** Allowed networks in addition to the public ones. */
  readonly allowed: BlockList
  /** For name resolution, connection and answer together. */
  readonly timeoutMs: number
  readonly resolve?: Resolve
  /** Aborts the request. */
  readonly signal?: AbortSignal
}

/**
 * Posts a body as JSON and returns the answer of any status; redirects are not followed. Each request has its own
 * connection, to an address that has just been judged. Errors: NotDelivered; the signal's reason.
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
    const addresses = await withSignal(addressesOf(url, allowed, resolve), over)
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

/** Reads KEPT_BYTES of the body at most. If the body is late, its beginning is kept: the status has arrived. */
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
    // Keep the parts that arrived.
  }
  response.destroy()
  // Postgres text cannot hold NUL.
  return Buffer.concat(parts).subarray(0, KEPT_BYTES).toString('utf8').replaceAll('\0', '\ufffd')
}

function reason(error: unknown): string {
  const { code = '' } = error as { code?: string }
  if (code === 'ECONNREFUSED') return 'the connection was refused'
  if (/CERT|TLS|SSL|EPROTO|SELF_SIGNED|UNABLE_TO/.test(code)) return `no secure connection (${code})`
  if (code.startsWith('HPE_')) return 'what answered did not speak HTTP'
  return 'the connection failed'
}
