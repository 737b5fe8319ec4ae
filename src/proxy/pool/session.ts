/*
 * A pooled client. It has a server connection from its first message until all is answered outside of a transaction:
 *
 *   idle ──a message──▶ waiting ──a server──▶ lent ──all answered──▶ idle
 *                          ▲                    │ the server is gone
 *                          └───may run again────┴──▶ aborted (a transaction was open) ──ROLLBACK──▶ idle
 *
 * While it is idle, a stop of the compute does not affect it.
 */
import type { Duplex } from 'node:stream'
import { readBorrowed, writeBorrowed } from '../borrowed.ts'
import { closeGently, destroySoon, refuse } from '../close.ts'
import { ProxyError } from '../errors.ts'
import { encodeError } from '../messages.ts'
import type { ForwardedSession } from '../traffic.ts'
import {
  type Aborted,
  abortedTransaction,
  encodeFailure,
  encodeReady,
  type StatementFailure,
  type PreparedNames,
  UNKNOWN_OUTCOME,
} from './aborted.ts'
import { createClientSettings } from './client_settings.ts'
import type { Parameters } from './parameters.ts'
import type { Pool } from './pool.ts'
import { COPY_DATA, COPY_DONE, COPY_FAIL, FAILED, IDLE, QUERY, SYNC, TERMINATE } from '../message_types.ts'
import { answerLost, answerRefused } from './lost_requests.ts'
import { outcomeOf, type PreparedTexts } from './outcome.ts'
import { mayRepeat } from './repeat.ts'
import { createRequests } from './requests.ts'
import { createSent, MAX_KEPT } from './sent.ts'
import { isOneRequest } from './session_reset.ts'
import type { Borrower, Loss } from './borrower.ts'
import type { PoolServer } from './server_interface.ts'
import { createTranslator } from './translate.ts'
import { encodeParameters } from './welcome.ts'

export interface PooledSession extends ForwardedSession {
  /** Cancels the client's statement that runs, or waits to run. */
  cancel(): Promise<void>
  /** Ends the session. The client gets the error unless a server connection is lent to it. */
  end(why: ProxyError): void
}

/** Terminate, and messages of a COPY that is over. */
const NEEDS_NO_SERVER = new Set([TERMINATE, COPY_DATA, COPY_DONE, COPY_FAIL])

const NOTHING = Buffer.alloc(0)

/** SQLSTATE of a server that ends because it cannot parse a message. */
const PROTOCOL_VIOLATION = '08P01'

/**
 * @param parameters the settings that the client has chosen
 * @param asError makes the client's error of any error, and counts and logs it
 */
export function pooledSession(
  stream: Duplex,
  pool: Pool,
  parameters: Parameters,
  asError: (error: unknown) => ProxyError,
): PooledSession {
  const { traffic } = pool
  let server: PoolServer | undefined
  let giveUp: (() => void) | undefined
  /** Bytes received while no server connection could take them. */
  let pending: Buffer[] = []
  /** Bytes received since the client began to wait for a server connection. */
  let waitingLength = 0
  const sent = createSent()
  const settings = createClientSettings(parameters)
  /** The client has cancelled the messages sent behind a reset that was under way. */
  let isCancelled = false
  let aborted: Aborted | undefined
  /** Messages are skipped up to the Sync of a batch that has failed; `aborted` does that itself. */
  let skipping = false
  /** The error that answers the client's next message. */
  let unsettled: StatementFailure | undefined
  let leaving = false

  const borrower: Borrower = {
    receive(bytes) {
      sent.answered()
      translator.settle()
      traffic.toClients += bytes.length
      return writeBorrowed(stream, bytes)
    },
    parameter: (name, value) => settings.note(name, value),
    settled,
    answered: () => sent.begin(requests.begun()),
    lost,
    drained: () => stream.resume(),
    unprepared: (statement, name) => translator.forget(statement, name),
    deallocated: () => server && translator.forgetAll(server),
    discarded: () => settings.discard(),
    onReset: sendHeld,
  }
  const applicationName = (): string => parameters.get('application_name') ?? ''
  const asker = { borrower, sendsOneRequest, applicationName }
  const translator = createTranslator(pool.statements)
  const requests = createRequests(translator)
  const texts: PreparedNames & PreparedTexts = {
    textOf: (name) => translator.textOf(name),
    declare: (name, definition) => translator.declare(name, definition),
    hasEscapes: () => parameters.get('standard_conforming_strings') === 'off',
  }

  function fromClient(chunk: Buffer): void {
    if (stream.writableEnded) return
    traffic.lastByteAt = Date.now()
    traffic.fromClients += chunk.length
    traffic.hold?.wake()
    traffic.look(chunk)
    if (server && !server.isResetting()) return send(server, chunk)
    if (server) {
      stream.pause()
      return void pending.push(Buffer.from(chunk))
    }
    const free = needsServerOnly(chunk)
      ? (pool.takeFor(borrower) ?? (isOneRequest(chunk) ? pool.takeUsed() : undefined))
      : undefined
    if (free) return begin(free, chunk)
    pending.push(Buffer.from(chunk))
    if (!giveUp) return next()
    waitingLength += chunk.length
    if (waitingLength > MAX_KEPT) stream.pause()
  }

  /** Whether the client is idle, and only a server can answer the bytes. */
  function needsServerOnly(chunk: Buffer): boolean {
    return (
      !giveUp &&
      !aborted &&
      !skipping &&
      pending.length === 0 &&
      requests.begun().length === 0 &&
      !requests.isMidMessage() &&
      !NEEDS_NO_SERVER.has(chunk[0] ?? 0)
    )
  }

  /** Sends the bytes received while the server connection was being reset. */
  function sendHeld(): void {
    if (!server || pending.length === 0) return
    resume()
    send(server, takePending())
  }

  function stopKeeping(): void {
    sent.drop()
    translator.settle()
  }

  function takePending(): Buffer {
    const [only = NOTHING] = pending
    const all = pending.length > 1 ? Buffer.concat(pending) : only
    pending = []
    return all
  }

  /** Processes the bytes received while no server connection was lent. */
  function next(): void {
    try {
      const type = requests.begun()[0] ?? pending[0]?.[0] ?? 0
      if (aborted || skipping || requests.isMidMessage() || NEEDS_NO_SERVER.has(type)) {
        const { messages, tail } = requests.split(Buffer.concat(pending))
        const wanted = answerHere(messages)
        if (wanted[0]?.[0] === TERMINATE) return leave()
        pending = [Buffer.concat([...wanted, tail])]
        if (wanted.length === 0 || aborted || skipping) return
      }
      ask()
    } catch (error) {
      refuse(stream, asError(error))
    }
  }

  /** Answers messages that need no server. Returns the rest. */
  function answerHere(messages: Buffer[]): Buffer[] {
    while (messages.length > 0 && (aborted || skipping)) {
      const message = messages.shift() ?? Buffer.alloc(0)
      if (message[0] === TERMINATE) return [message]
      if (aborted) {
        const answer = aborted.answer(message)
        if (!answer) {
          aborted = undefined
          return [message, ...messages]
        }
        if (answer.length > 0) stream.write(answer)
        // In the extended protocol, the transaction is over only with the Sync that follows.
        if (aborted.isOver() && (message[0] === SYNC || message[0] === QUERY)) aborted = undefined
        continue
      }
      if (unsettled) stream.write(encodeFailure(unsettled))
      unsettled = undefined
      skipping = message[0] !== SYNC
      if (!skipping) stream.write(encodeReady(IDLE))
    }
    return messages
  }

  function ask(): void {
    const free = pool.takeFor(borrower) ?? (sendsOneRequest() ? pool.takeUsed() : undefined)
    if (free) return given(free)
    // The client is still read, up to `MAX_KEPT` bytes, so that its end is noticed.
    waitingLength = 0
    giveUp = pool.wait({ ...asker, given, failed })
  }

  function sendsOneRequest(): boolean {
    if (requests.begun().length > 0 || requests.isMidMessage()) return false
    if (pending.length > 1) pending = [takePending()]
    return isOneRequest(pending[0] ?? NOTHING)
  }

  function given(to: PoolServer): void {
    giveUp = undefined
    begin(to, takePending())
    if (!to.needsDrain()) resume()
  }

  /** @param bytes valid only until this returns */
  function begin(to: PoolServer, bytes: Buffer): void {
    server = to
    isCancelled = false
    stopKeeping()
    sent.begin(requests.begun())
    to.lend(borrower)
    settings.bring(to)
    send(to, bytes)
  }

  function resume(): void {
    if (stream.isPaused()) stream.resume()
  }

  function send(to: PoolServer, bytes: Buffer): void {
    sent.add(bytes)
    try {
      leaving = requests.forward(to, bytes) || leaving
    } catch (error) {
      refuse(stream, asError(error))
      return abandon()
    }
    if (to.needsDrain()) stream.pause()
    if (server === to && to.isSettled()) settled()
    else if (leaving && to.isAnswered()) leave()
  }

  /** Gives the server connection back, unless the server still needs the end of a message, as after a failed COPY. */
  function settled(): void {
    if (requests.isMidMessage()) return
    const was = server
    server = undefined
    stopKeeping()
    const restored = settings.restore()
    if (restored.length > 0) stream.write(encodeParameters(restored))
    was?.takeBack()
    if (leaving) leave()
    else resume()
  }

  function lost(loss: Loss): void {
    server = undefined
    if (loss.unrun) {
      recall()
      return isCancelled ? failed(new ProxyError('cancelled')) : ask()
    }
    if (mayRepeat(loss, Buffer.concat(sent.unanswered()), texts.textOf)) {
      recall()
      return repeat(loss)
    }
    // A message other than data came within a COPY: the server can no longer find message boundaries.
    if (loss.said?.code === PROTOCOL_VIOLATION)
      return refuse(stream, asError(new ProxyError('malformed', { text: 'protocol synchronization was lost' })))
    if (loss.midMessage) return refuse(stream, asError(new ProxyError('compute_lost')))
    tellLost(loss)
    if (leaving) return leave()
    stream.resume()
    // Bytes received during a reset were not sent.
    if (pending.length > 0) next()
  }

  /** Answers the messages that a lost server received. */
  function tellLost(loss: Loss): void {
    // No server received the message that the client has only begun.
    const messages = requests.begun().length > 0 ? sent.messages()?.slice(0, -1) : sent.messages()
    const outcome = outcomeOf(loss, messages, texts)
    const isFresh = !sent.isAnswered()
    stopKeeping()
    for (const { statement, name, onDropped } of loss.unanswered.toReversed()) {
      onDropped?.(true)
      if (statement && name !== undefined) translator.forget(statement, name)
    }
    const { bytes, isTold, isOpen } = answerLost(loss, outcome, isFresh, texts)
    if (isTold) stream.write(bytes)
    // An implicit transaction ends with its Sync.
    if (outcome.status === IDLE && loss.inBatch && !isOpen) unsettled = outcome.failure
    if (outcome.status === FAILED) aborted = abortedTransaction(isTold ? undefined : outcome.failure, isOpen, texts)
    else skipping = isOpen || unsettled !== undefined
  }

  /** Queues the messages that a server received and did not run, ahead of later ones. */
  function recall(): void {
    pending.unshift(...sent.unanswered())
    translator.restart()
    stopKeeping()
    requests.restart()
  }

  /** Repeats the messages lost with a compute on the next one. If that is the same compute, they fail. */
  function repeat({ computeId, said }: Loss): void {
    stream.pause()
    giveUp = pool.waitForNew({
      ...asker,
      given(to) {
        if (to.computeId !== computeId) return given(to)
        to.takeBack()
        fail(said ?? UNKNOWN_OUTCOME)
      },
      failed,
    })
  }

  /** No server connection is available: the waiting statements fail, and the client may try again. */
  function failed(error: unknown): void {
    const known = asError(error)
    giveUp = undefined
    if (known.reason === 'unknown_endpoint') refuse(stream, known)
    else fail({ code: known.code, text: known.message, detail: known.detail, hint: known.hint })
  }

  /** Fails the statements that wait for a server connection. */
  function fail(failure: StatementFailure): void {
    giveUp = undefined
    try {
      const { messages, tail } = requests.split(Buffer.concat(pending.splice(0)))
      if (tail.length > 0) pending = [tail]
      const { bytes, isTold, isOpen } = answerRefused(messages, failure)
      if (isTold) stream.write(bytes)
      skipping = isOpen
      if (messages.some(([type]) => type === TERMINATE)) leave()
      else stream.resume()
    } catch (malformed) {
      refuse(stream, asError(malformed))
    }
  }

  function leave(): void {
    leaving = true
    destroySoon(stream)
  }

  function over(): void {
    giveUp?.()
    giveUp = undefined
    translator.close()
    traffic.sessions.delete(session)
    // A client that sent Terminate may have sent statements before it.
    if (!leaving) return abandon()
    const was = server
    server = undefined
    was?.takeBack()
  }

  /** Cancels and closes the server connection, whose pending messages are unknown or whose client is gone. */
  function abandon(): void {
    const was = server
    server = undefined
    void was?.cancel()
    was?.close()
  }

  const session: PooledSession = {
    computeId: undefined,
    isSending: () => giveUp !== undefined || server?.isSending() === true,
    release: () => {},
    async cancel() {
      isCancelled = server?.isResetting() === true
      if (!giveUp) return await server?.cancel()
      giveUp()
      failed(new ProxyError('cancelled'))
    },
    end(why) {
      if (!server && stream.writable) stream.write(encodeError(why))
      closeGently(stream)
    },
  }

  traffic.sessions.add(session)
  traffic.connections += 1
  readBorrowed(stream, fromClient)
  stream.on('drain', () => server?.resume())
  stream.once('end', () => closeGently(stream))
  stream.once('close', over)
  stream.resume()
  return session
}
