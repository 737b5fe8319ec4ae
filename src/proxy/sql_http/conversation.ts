/*
 * One session of the extended protocol (Postgres manual, "Message Flow"), a client of the proxy's own `serve`:
 *
 *   opening ──ReadyForQuery──▶ ready ──run──▶ running ──ReadyForQuery──▶ ready
 *      any of them ──error outside a query, end of the stream, answer too large, abandon──▶ gone
 *
 * No driver is used, because a driver keeps a whole answer however large it is, waits for each statement of a batch
 * before it sends the next, and takes parameters that a connection string omits from the environment of the process.
 */
import type { Duplex } from 'node:stream'
import { ClientGone } from '../wire/errors.ts'
import {
  BACKEND_KEY_DATA,
  COMMAND_COMPLETE,
  COPY_BOTH,
  COPY_IN,
  COPY_OUT,
  DATA_ROW,
  EMPTY_QUERY,
  ERROR_RESPONSE,
  IDLE,
  NOTICE,
  NOTIFICATION,
  PARAMETER_STATUS,
  READY_FOR_QUERY,
  ROW_DESCRIPTION,
} from '../wire/message_types.ts'
import { MESSAGE_HEAD, type Message, messageAt } from '../wire/messages.ts'
import { PostgresError, Refusal } from './refusal.ts'
import { parseFields, rowEncoder } from './rows.ts'
import { encodeStatements, type Result, type HttpStatement } from './statement.ts'

/** Limit of the row messages in the answer to a request, and also of the messages that describe the rows. */
export const MAX_ANSWER_BYTES = 10 * 2 ** 20

export interface SqlSession {
  /** Whether it can run statements, and whether a transaction is open then. */
  state(): 'ready' | 'in_transaction' | 'busy' | 'gone'
  /**
   * Runs statements in order, all sent at once. The first error ends the run, and what was not committed is rolled
   * back.
   * Errors: PostgresError; Refusal (the answer is too large, COPY, the session broke off); ClientGone when abandoned.
   */
  run(statements: readonly HttpStatement[]): Promise<Result[]>
  /** Cancels the running statements, and ends the session. */
  abandon(): void
  /** Sets the listener for the end of the session. */
  onGone(listener: () => void): void
}

const COPY: readonly number[] = [COPY_IN, COPY_OUT, COPY_BOTH]
/** Messages that may come at any time. */
const ASIDE: readonly number[] = [NOTICE, PARAMETER_STATUS, NOTIFICATION]

/** A run that waits for the next ReadyForQuery. */
interface Waiting {
  readonly statements: readonly HttpStatement[]
  readonly results: Result[]
  bytes: number
  describedBytes: number
  heard: boolean
  error: Error | undefined
  readonly resolve: (results: Result[]) => void
  readonly reject: (error: Error) => void
}

/**
 * @param stream the caller sends the startup packet on it; `answered` resolves when the session is ready
 * @param cancelBy cancels the running query of the session with this key
 */
export function conversation(
  stream: Duplex,
  cancelBy: (key: Buffer) => Promise<void>,
): SqlSession & { readonly answered: Promise<unknown> } {
  let waiting: Waiting | undefined
  let key: Buffer | undefined
  let inTransaction = false
  let current: Result = noResult()
  let encodeRow: ((body: Buffer) => string) | undefined
  let gone: Error | undefined
  let onGone = (): void => {}

  function wait(statements: readonly HttpStatement[]): Promise<Result[]> {
    return new Promise((resolve, reject) => {
      waiting = {
        statements,
        results: [],
        bytes: 0,
        describedBytes: 0,
        heard: false,
        error: undefined,
        resolve,
        reject,
      }
      current = noResult()
    })
  }

  /**
   * Ends the session, and rejects the running call with the error. A query that the compute is running is cancelled.
   */
  function leave(error: Error): void {
    if (gone) return
    gone = error
    const running = waiting
    waiting = undefined
    stream.off('data', read).pause()
    if (running && key && !stream.readableEnded && !stream.destroyed) void cancelAndClose(key)
    else stream.destroy()
    running?.reject(error)
    onGone()
  }

  async function cancelAndClose(keyOfSession: Buffer): Promise<void> {
    await cancelBy(keyOfSession)
    // The proxy must know the key until the cancel request is done.
    stream.destroy()
  }

  let chunks: Buffer[] = []
  let have = 0
  let need = MESSAGE_HEAD

  function read(chunk: Buffer): void {
    chunks.push(chunk)
    have += chunk.length
    if (have < need) return
    const bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks)
    let at = 0
    while (!gone) {
      const message = messageAt(bytes, at, MAX_ANSWER_BYTES)
      if (message === 'invalid') return leave(tooLarge())
      if (!message) break
      at += MESSAGE_HEAD + message.body.length
      try {
        hear(message)
      } catch (error) {
        // No message of one compute may end the proxy.
        return leave(error as Error)
      }
    }
    const rest = bytes.subarray(at)
    chunks = rest.length > 0 ? [rest] : []
    have = rest.length
    need = have < MESSAGE_HEAD ? MESSAGE_HEAD : 1 + rest.readInt32BE(1)
  }

  function hear({ type, body }: Message): void {
    if (type === BACKEND_KEY_DATA) key = Buffer.from(body)
    const running = waiting
    if (!running) {
      if (type === ERROR_RESPONSE) leave(new PostgresError(body, true))
      return
    }
    if (type === READY_FOR_QUERY) return ready(body)
    if (type === ERROR_RESPONSE) running.error = new PostgresError(body, !running.heard)
    else if (COPY.includes(type)) leave(noCopy())
    else result(running, type, body)
    running.heard ||= !ASIDE.includes(type)
  }

  function result(running: Waiting, type: number, body: Buffer): void {
    const statement = running.statements[running.results.length]
    if (!statement) return
    if (type === ROW_DESCRIPTION) {
      running.describedBytes += MESSAGE_HEAD + body.length
      if (running.describedBytes > MAX_ANSWER_BYTES) return leave(tooLarge())
      current.fields = parseFields(body)
      encodeRow = rowEncoder(current.fields, statement)
    } else if (type === DATA_ROW && encodeRow) {
      running.bytes += MESSAGE_HEAD + body.length
      if (running.bytes > MAX_ANSWER_BYTES) leave(tooLarge())
      else current.rows.push(encodeRow(body))
    } else if (type === COMMAND_COMPLETE || type === EMPTY_QUERY) {
      current.tag = type === EMPTY_QUERY ? '' : body.toString('utf8', 0, body.length - 1)
      running.results.push(current)
      current = noResult()
      encodeRow = undefined
    }
  }

  function ready(body: Buffer): void {
    inTransaction = body.readUInt8(0) !== IDLE
    const answered = waiting
    waiting = undefined
    if (answered?.error) answered.reject(answered.error)
    else answered?.resolve(answered.results)
  }

  const ended = (): void => leave(waiting?.error ?? new Refusal(500, 'The connection to the compute broke off.'))
  stream.on('data', read).on('end', ended).on('close', ended)
  const answered = wait([])
  return {
    answered,
    state: () => (gone ? 'gone' : waiting ? 'busy' : inTransaction ? 'in_transaction' : 'ready'),
    run(statements) {
      if (gone) return Promise.reject(gone)
      const results = wait(statements)
      stream.write(encodeStatements(statements))
      return results
    },
    abandon: () => leave(new ClientGone('gone before it was answered')),
    onGone(listener) {
      onGone = listener
    },
  }
}

const noResult = (): Result => ({ fields: [], rows: [], tag: '' })

const tooLarge = (): Refusal =>
  new Refusal(507, `The answer has more than ${MAX_ANSWER_BYTES} bytes: ask for fewer rows, or connect by WebSocket.`)
const noCopy = (): Refusal =>
  new Refusal(400, 'COPY from STDIN or to STDOUT is not possible over HTTP: connect by WebSocket, or as psql does.', {
    code: '0A000',
  })
