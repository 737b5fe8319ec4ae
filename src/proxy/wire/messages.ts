import type { ProxyError } from './errors.ts'
import {
  AUTHENTICATION,
  ERROR_RESPONSE,
  NEGOTIATE_PROTOCOL_VERSION,
  NOTICE,
  READY_FOR_QUERY,
  TERMINATE,
} from './message_types.ts'

/* The messages that the proxy itself reads or writes (Postgres manual, "Message Formats"). */

/** Type and length, at the beginning of every message. */
export const MESSAGE_HEAD = 5

export interface Message {
  readonly type: number
  readonly body: Buffer
}

/** The message at offset `at`: undefined while incomplete, `invalid` if its length is over `maxLength` or too small. */
export function messageAt(bytes: Buffer, at: number, maxLength: number): Message | 'invalid' | undefined {
  if (bytes.length < at + MESSAGE_HEAD) return undefined
  const length = bytes.readInt32BE(at + 1)
  if (length < 4 || length > maxLength) return 'invalid'
  if (bytes.length < at + 1 + length) return undefined
  return { type: bytes.readUInt8(at), body: bytes.subarray(at + MESSAGE_HEAD, at + 1 + length) }
}

export function encodeMessage(type: number, ...parts: Buffer[]): Buffer {
  const head = Buffer.alloc(MESSAGE_HEAD)
  head.writeUInt8(type, 0)
  head.writeInt32BE(4 + parts.reduce((sum, part) => sum + part.length, 0), 1)
  return Buffer.concat([head, ...parts])
}

export const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

/** An Authentication message: its kind number and its data. */
export const encodeAuthentication = (kind: number, data: string | Buffer = ''): Buffer =>
  encodeMessage(AUTHENTICATION, int32(kind), Buffer.from(data))

/** A NegotiateProtocolVersion message: the version in use, and the options that are not supported. */
export const encodeNegotiation = (version: number, options: readonly string[]): Buffer =>
  encodeMessage(
    NEGOTIATE_PROTOCOL_VERSION,
    int32(version),
    int32(options.length),
    Buffer.from(options.map((name) => `${name}\0`).join(''), 'latin1'),
  )

/** An ErrorResponse of severity FATAL. */
export function encodeError(error: ProxyError): Buffer {
  return encodeFields('FATAL', error.code, error.message, error.detail, error.hint)
}

/** A NoticeResponse of severity NOTICE (SQLSTATE 00000, successful completion). */
export const encodeNotice = (text: string, detail: string, hint: string): Buffer =>
  encodeFields('NOTICE', '00000', text, detail, hint)

/** An ErrorResponse or NoticeResponse (Postgres manual, "Error and Notice Message Fields"). */
export function encodeFields(
  severity: 'FATAL' | 'ERROR' | 'NOTICE',
  code: string,
  text: string,
  detail?: string,
  hint?: string,
): Buffer {
  const fields: [string, string | undefined][] = [
    ['S', severity],
    ['V', severity],
    ['C', code],
    ['M', text],
    ['D', detail],
    ['H', hint],
  ]
  const encoded = fields.flatMap(([field, value]) =>
    value === undefined ? [] : [`${field}${value.replaceAll('\0', '')}\0`],
  )
  const type = severity === 'NOTICE' ? NOTICE : ERROR_RESPONSE
  return encodeMessage(type, Buffer.from(`${encoded.join('')}\0`))
}

/**
 * Fields of an ErrorResponse by letter, such as `C` for SQLSTATE (Postgres manual, "Error and Notice Message Fields").
 */
export function errorFields(body: Buffer): ReadonlyMap<string, string> {
  const fields = body.toString().split('\0')
  return new Map(fields.filter((field) => field !== '').map((field) => [field.slice(0, 1), field.slice(1)]))
}

/** Whether a chunk from a client ends with Terminate. */
export function endsWithTerminate(chunk: Buffer): boolean {
  const at = chunk.length - MESSAGE_HEAD
  return at >= 0 && chunk[at] === TERMINATE && chunk.readInt32BE(at + 1) === 4
}

/** Whether a chunk from a server ends with ReadyForQuery, so that the session is at rest between two messages. */
export function endsWithReadyForQuery(chunk: Buffer): boolean {
  const at = chunk.length - 6
  return (
    at >= 0 &&
    chunk[at] === READY_FOR_QUERY &&
    chunk[at + 4] === 5 &&
    chunk[at + 3] === 0 &&
    chunk[at + 2] === 0 &&
    chunk[at + 1] === 0
  )
}
