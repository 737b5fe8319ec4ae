import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { AppError, type ErrorCode, ERRORS } from '../errors.ts'
import { newRequestId } from '../ids.ts'
import { errorBody } from './refusal.ts'

/** Node's codes for requests that it could not read (Node's manual, http: `clientError`). */
const CODES: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'HEADERS_TOO_LARGE',
  ERR_HTTP_REQUEST_TIMEOUT: 'REQUEST_TIMEOUT',
}

/** Answers a request that Node could not read, and that passes no hook, with an error body; closes the connection. */
export function answerMalformed({ code }: Error & { readonly code?: string }, socket: Socket): void {
  if (code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const known = CODES[code ?? '']
  const error = known ? new AppError(known) : new AppError('INVALID_REQUEST', 'This is no HTTP request.')
  const { status } = ERRORS[error.code]
  const id = newRequestId()
  const body = JSON.stringify(errorBody({ id }, error))
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `x-request-id: ${id}`,
    `x-neon-ret-request-id: ${id}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}
