/* A pooled client without a server connection: it waits for one, or its messages are answered here. */
import { refuse } from '../wire/close.ts'
import { COPY_DATA, COPY_DONE, COPY_FAIL, IDLE, QUERY, SYNC, TERMINATE } from '../wire/message_types.ts'
import { encodeFailure, encodeReady, type StatementFailure } from './aborted.ts'
import { answerRefused } from './lost_requests.ts'
import type { PoolServer } from './server_interface.ts'
import { begin, leave, resume, takePending } from './session_lent.ts'
import { isOneRequest } from './session_reset.ts'
import { type PooledClient, toIdle, toSkipping, toWaiting } from './session_state.ts'

/** Terminate, and messages of a COPY that is over. */
const NEEDS_NO_SERVER = new Set([TERMINATE, COPY_DATA, COPY_DONE, COPY_FAIL])

const NOTHING = Buffer.alloc(0)

/** Whether the client is idle between two messages, and only a server can answer the bytes. */
export function needsServerOnly({ state, pending, requests }: PooledClient, chunk: Buffer): boolean {
  return (
    state === 'idle' &&
    pending.length === 0 &&
    requests.begun().length === 0 &&
    !requests.isMidMessage() &&
    !NEEDS_NO_SERVER.has(chunk[0] ?? 0)
  )
}

/** Processes the bytes received while the client neither had nor awaited a server connection. */
export function processPending(client: PooledClient): void {
  const { requests, pending, stream, asError } = client
  try {
    const type = requests.begun()[0] ?? pending[0]?.[0] ?? 0
    if (answersHere(client) || requests.isMidMessage() || NEEDS_NO_SERVER.has(type)) {
      const { messages, tail } = requests.split(Buffer.concat(pending))
      const unanswered = answerHere(client, messages)
      if (unanswered[0]?.[0] === TERMINATE) return leave(client)
      const rest = Buffer.concat([...unanswered, tail])
      client.pending = rest.length > 0 ? [rest] : []
      if (unanswered.length === 0 || answersHere(client)) return
    }
    acquire(client)
  } catch (error) {
    refuse(stream, asError(error))
  }
}

const answersHere = ({ state }: PooledClient): boolean => state === 'aborted' || state === 'skipping'

/** Answers messages that need no server. Returns the rest; only Terminate if that is next. */
function answerHere(client: PooledClient, messages: Buffer[]): Buffer[] {
  while (messages.length > 0 && answersHere(client)) {
    const message = messages.shift() ?? NOTHING
    if (message[0] === TERMINATE) return [message]
    if (client.aborted === undefined) skip(client, message)
    else if (!answerAborted(client, message)) return [message, ...messages]
  }
  return messages
}

/** Returns false if a server must answer the message. */
function answerAborted(client: PooledClient, message: Buffer): boolean {
  const { aborted, stream } = client
  const answer = aborted?.answer(message)
  if (!answer) {
    toIdle(client)
    return false
  }
  if (answer.length > 0) stream.write(answer)
  // In the extended protocol, the transaction is over only with the Sync that follows.
  if (aborted?.isOver() && (message[0] === SYNC || message[0] === QUERY)) toIdle(client)
  return true
}

/** Skips a message of a batch that has failed. */
function skip(client: PooledClient, message: Buffer): void {
  const { failure, stream } = client
  if (failure) stream.write(encodeFailure(failure))
  if (message[0] !== SYNC) return toSkipping(client, undefined)
  toIdle(client)
  stream.write(encodeReady(IDLE))
}

/** Takes an idle server connection, or waits for one. */
export function acquire(client: PooledClient): void {
  const { pool, waiter } = client
  const server = pool.takeFor(waiter.borrower) ?? (sendsOneRequest(client) ? pool.takeUsed() : undefined)
  if (server) return beginPending(client, server)
  // The client is still read, up to `MAX_KEPT` bytes, so that its end is noticed.
  client.waitingLength = 0
  toWaiting(client, pool.wait(waiter))
}

export function sendsOneRequest(client: PooledClient): boolean {
  const { requests } = client
  if (requests.begun().length > 0 || requests.isMidMessage()) return false
  if (client.pending.length > 1) client.pending = [takePending(client)]
  return isOneRequest(client.pending[0] ?? NOTHING)
}

/** A server connection is lent to a client whose bytes have waited. */
export function beginPending(client: PooledClient, server: PoolServer): void {
  begin(client, server, takePending(client))
  if (!server.needsDrain()) resume(client)
}

/** No server connection is available: the waiting statements fail, and the client may try again. */
export function failWaiting(client: PooledClient, error: unknown): void {
  const { stream, asError } = client
  const known = asError(error)
  toIdle(client)
  if (known.reason === 'unknown_endpoint') refuse(stream, known)
  else failPending(client, { code: known.code, text: known.message, detail: known.detail, hint: known.hint })
}

/** Fails the statements that wait for a server connection. */
export function failPending(client: PooledClient, failure: StatementFailure): void {
  const { requests, stream, asError } = client
  toIdle(client)
  try {
    const { messages, tail } = requests.split(Buffer.concat(client.pending.splice(0)))
    if (tail.length > 0) client.pending = [tail]
    const { bytes, hasUnanswered, isOpen } = answerRefused(messages, failure)
    if (hasUnanswered) stream.write(bytes)
    if (isOpen) toSkipping(client, undefined)
    if (messages.some(([type]) => type === TERMINATE)) leave(client)
    else stream.resume()
  } catch (malformed) {
    refuse(stream, asError(malformed))
  }
}
