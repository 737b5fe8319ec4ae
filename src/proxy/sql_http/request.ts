import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { ClientGone } from '../wire/errors.ts'
import type { MemoryReservation } from './memory_limit.ts'
import { isInexact, parameterText, parseExactly } from './parameter.ts'
import { Refusal } from './refusal.ts'
import type { RowFormat } from './rows.ts'
import type { HttpStatement } from './statement.ts'

export const MAX_BODY_BYTES = 10 * 2 ** 20
/** The protocol counts parameters in sixteen bits. */
const MAX_PARAMETERS = 65_535
/** Limit of a batch: each statement takes some kilobytes while it runs, however short it is. */
const MAX_STATEMENTS = 10_000

const ISOLATION_LEVELS = new Map([
  ['ReadUncommitted', 'read uncommitted'],
  ['ReadCommitted', 'read committed'],
  ['RepeatableRead', 'repeatable read'],
  ['Serializable', 'serializable'],
])

export interface SqlRequest {
  readonly statements: readonly HttpStatement[]
  /** The statement that begins the transaction of a batch; undefined for a single query. */
  readonly begin: string | undefined
}

const isTrue = (header: string | string[] | undefined): boolean =>
  typeof header === 'string' && header.toLowerCase() === 'true'

/** The statements of a body, in the format that the headers ask for. Errors: Refusal. */
export function parseRequest(headers: IncomingHttpHeaders, body: Buffer): SqlRequest {
  try {
    return readRequest(headers, body)
  } catch (error) {
    // V8 parses JSON of any depth, but recursion over its values runs out of stack.
    if (error instanceof RangeError) throw new Refusal(400, 'The body is nested too deeply.')
    throw error
  }
}

function readRequest(headers: IncomingHttpHeaders, body: Buffer): SqlRequest {
  const format = {
    arrayMode: isTrue(headers['neon-array-mode']),
    rawText: isTrue(headers['neon-raw-text-output']),
  }
  const asked = parseBody(body)
  const { queries } = asked
  if (!Array.isArray(queries)) return { statements: [statement(asked, format, 'the body')], begin: undefined }
  if (queries.length > MAX_STATEMENTS) throw new Refusal(400, `"queries" has more than ${MAX_STATEMENTS} elements.`)
  const statements = queries.map((query, index) => statement(query, format, `queries[${index}]`))
  return { statements, begin: beginOf(headers) }
}

function parseBody(body: Buffer): { readonly queries?: unknown } {
  let text: string
  let read: unknown
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body)
    read = JSON.parse(text)
  } catch (error) {
    throw new Refusal(400, `The body is not JSON in UTF-8: ${(error as Error).message}`)
  }
  if (isInexact(read)) read = parseExactly(text)
  return isRecord(read) ? read : {}
}

function statement(asked: unknown, { arrayMode, rawText }: RowFormat, place: string): HttpStatement {
  if (!isRecord(asked) || typeof asked['query'] !== 'string')
    throw new Refusal(400, `${place} must be {"query": <text>, "params": [...]}, or the body {"queries": [...]}.`)
  const { query, params = [], arrayMode: own = arrayMode } = asked
  if (!Array.isArray(params)) throw new Refusal(400, `"params" of ${place} must be an array.`)
  if (params.length > MAX_PARAMETERS)
    throw new Refusal(400, `"params" of ${place} has more than ${MAX_PARAMETERS} elements.`)
  if (typeof own !== 'boolean') throw new Refusal(400, `"arrayMode" of ${place} must be true or false.`)
  // In the protocol a NUL ends a text: the rest would be read as other fields.
  if (query.includes('\0')) throw new Refusal(400, `"query" of ${place} holds a NUL, which no SQL can.`)
  return { text: query, parameters: params.map(parameterText), arrayMode: own, rawText }
}

function beginOf(headers: IncomingHttpHeaders): string {
  const asked = headers['neon-batch-isolation-level']
  const level = asked === undefined ? undefined : ISOLATION_LEVELS.get(String(asked))
  if (asked !== undefined && level === undefined)
    throw new Refusal(400, `Neon-Batch-Isolation-Level must be one of ${[...ISOLATION_LEVELS.keys()].join(', ')}.`)
  return [
    'begin',
    ...(level === undefined ? [] : ['isolation level', level]),
    ...(isTrue(headers['neon-batch-read-only']) ? ['read only'] : []),
    ...(isTrue(headers['neon-batch-deferrable']) ? ['deferrable'] : []),
  ].join(' ')
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Reads a body, and counts its bytes in memory.
 * @param signal gives up with its reason
 * Errors: Refusal (too large by itself, or together with others), ClientGone.
 */
export function readBody(
  request: IncomingMessage,
  reservation: MemoryReservation,
  signal: AbortSignal,
): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge()
  const chunks: Buffer[] = []
  let bytes = 0
  return new Promise((resolve, reject) => {
    function done(settle: () => void): void {
      request.off('data', read).off('end', ended).off('error', gone).off('close', gone)
      signal.removeEventListener('abort', aborted)
      settle()
    }
    function read(chunk: Buffer): void {
      bytes += chunk.length
      try {
        if (bytes > MAX_BODY_BYTES) throw tooLarge()
        reservation.add(chunk.length)
        chunks.push(chunk)
      } catch (error) {
        failed(error as Error)
      }
    }
    const ended = (): void => done(() => resolve(Buffer.concat(chunks)))
    const failed = (error: Error): void => done(() => reject(error))
    const gone = (): void => failed(new ClientGone('closed within its request'))
    const aborted = (): void => failed(signal.reason as Error)
    request.on('data', read).on('end', ended).on('error', gone).on('close', gone)
    signal.addEventListener('abort', aborted)
    if (signal.aborted) aborted()
  })
}

const tooLarge = (): Refusal =>
  new Refusal(413, `The request has more than ${MAX_BODY_BYTES} bytes: send less at once, or connect by WebSocket.`)
