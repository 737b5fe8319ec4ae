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
import { BACKEND_KEY_DATA, ERROR_RESPONSE, IDLE, READY_FOR_QUERY } from '../wire/message_types.ts'
import type { Message } from '../wire/messages.ts'
import { messageReader } from './message_reader.ts'
import { PostgresError, Refusal } from './refusal.ts'
import { encodeStatements, type HttpStatement, type Result } from './statement.ts'
import { MAX_ANSWER_BYTES, newRun, type StatementRun, takeMessage, tooLarge } from './statement_run.ts'

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

/**
 * @param stream the caller sends the startup packet on it; `answered` resolves when the session is ready
 * @param cancelBy cancels the running query of the session with this key
 */
export function createSqlSession(
  stream: Duplex,
  cancelBy: (key: Buffer) => Promise<void>,
): SqlSession & { readonly answered: Promise<unknown> } {
  /** The run that waits for ReadyForQuery: while the session opens, one of no statements. */
  let running: StatementRun | undefined
  let key: Buffer | undefined
  let inTransaction = false
  let gone: Error | undefined
  let onGone = (): void => {}

  function wait(statements: readonly HttpStatement[]): Promise<Result[]> {
    return new Promise((resolve, reject) => {
      running = newRun(statements, resolve, reject)
    })
  }

  /**
   * Ends the session, and rejects the running call with the error. A query that the compute is running is cancelled.
   */
  function leave(error: Error): void {
    if (gone) return
    gone = error
    const broken = running
    running = undefined
    stream.off('data', read).pause()
    if (broken && key && !stream.readableEnded && !stream.destroyed) void cancelAndClose(key)
    else stream.destroy()
    broken?.reject(error)
    onGone()
  }

  async function cancelAndClose(keyOfSession: Buffer): Promise<void> {
    await cancelBy(keyOfSession)
    // The proxy must know the key until the cancel request is done.
    stream.destroy()
  }

  function hear(message: Message): void {
    const { type, body } = message
    if (type === BACKEND_KEY_DATA) key = Buffer.from(body)
    if (!running) {
      if (type === ERROR_RESPONSE) leave(new PostgresError(body, true))
      return
    }
    if (type === READY_FOR_QUERY) return ready(body)
    const refusal = takeMessage(running, message)
    if (refusal) leave(refusal)
  }

  function ready(body: Buffer): void {
    inTransaction = body.readUInt8(0) !== IDLE
    const answered = running
    running = undefined
    if (answered?.error) answered.reject(answered.error)
    else answered?.resolve(answered.results)
  }

  const read = messageReader(MAX_ANSWER_BYTES, {
    hear,
    failed: (error) => leave(error === 'too_large' ? tooLarge() : error),
    isOver: () => gone !== undefined,
  })
  const ended = (): void => leave(running?.error ?? new Refusal(500, 'The connection to the compute broke off.'))
  stream.on('data', read).on('end', ended).on('close', ended)
  const answered = wait([])
  return {
    answered,
    state: () => (gone ? 'gone' : running ? 'busy' : inTransaction ? 'in_transaction' : 'ready'),
    run(statements) {
      if (gone) return Promise.reject(gone)
      const results = wait(statements)
      stream.write(encodeStatements(statements))
      return results
    },
    abandon: () => leave(new ClientGone('gone before it was answered')),
    onGone(listener) {
      if (gone) listener()
      else onGone = listener
    },
  }
}
