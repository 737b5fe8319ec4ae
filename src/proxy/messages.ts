import type { ProxyError } from './errors.ts'

/* The few messages that the proxy itself reads or writes (Postgres manual, "Message Formats"). */

const TYPE_AND_LENGTH = 5
const ERROR_RESPONSE = 0x45
const BACKEND_KEY_DATA = 0x4b
const READY_FOR_QUERY = 0x5a

/** An ErrorResponse of severity FATAL. */
export function encodeError(error: ProxyError): Buffer {
  const fields: [string, string | undefined][] = [
    ['S', 'FATAL'],
    ['V', 'FATAL'],
    ['C', error.code],
    ['M', error.message],
    ['D', error.detail],
    ['H', error.hint],
  ]
  const text = fields.flatMap(([field, value]) =>
    value === undefined ? [] : [`${field}${value.replaceAll('\0', '')}\0`],
  )
  const body = Buffer.from(`${text.join('')}\0`)
  const head = Buffer.alloc(TYPE_AND_LENGTH)
  head.writeUInt8(ERROR_RESPONSE, 0)
  head.writeInt32BE(4 + body.length, 1)
  return Buffer.concat([head, body])
}

/** The SQLSTATE if these bytes begin with an ErrorResponse; null if with something else; nothing while that is not known. */
export function errorCode(bytes: Buffer): string | null | undefined {
  if (bytes.length === 0) return undefined
  if (bytes[0] !== ERROR_RESPONSE) return null
  if (bytes.length < TYPE_AND_LENGTH || bytes.length < 1 + bytes.readInt32BE(1)) return undefined
  const fields = bytes.toString('latin1', TYPE_AND_LENGTH, 1 + bytes.readInt32BE(1)).split('\0')
  return fields.find((field) => field.startsWith('C'))?.slice(1) ?? ''
}

/** True if what a server sent so far ends with ReadyForQuery: the session is between two messages and at rest. */
export function endsReady(chunk: Buffer): boolean {
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

/**
 * Follows what a server sends from its first byte to its first ReadyForQuery, in chunks as they come, and tells the body
 * of BackendKeyData (process number and secret) on the way. The answer to each chunk: whether that first end is reached.
 */
export function followStart(tellKey: (body: Buffer) => void): (chunk: Buffer) => boolean {
  let rest = Buffer.alloc(0)
  let skip = 0
  return (chunk) => {
    let bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
    rest = Buffer.alloc(0)
    for (;;) {
      const skipped = Math.min(skip, bytes.length)
      bytes = bytes.subarray(skipped)
      skip -= skipped
      if (bytes.length === 0) return false
      const type = bytes[0]
      const length = bytes.length < TYPE_AND_LENGTH ? undefined : bytes.readInt32BE(1)
      if (length !== undefined && length < 4) return true
      if (type === READY_FOR_QUERY) return true
      const wanted = type === BACKEND_KEY_DATA ? 1 + (length ?? 4) : TYPE_AND_LENGTH
      if (wanted > 1024) return true
      if (bytes.length < wanted || length === undefined) {
        rest = Buffer.from(bytes)
        return false
      }
      if (type === BACKEND_KEY_DATA) tellKey(bytes.subarray(TYPE_AND_LENGTH, wanted))
      skip = 1 + length
    }
  }
}
