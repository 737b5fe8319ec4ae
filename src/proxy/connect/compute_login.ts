/*
 * The login of a session at a compute, with the keys from the client's own login:
 *
 *   connecting ─▶ StartupMessage ─SASL▶ SASLInitialResponse ─SASLContinue▶ challenged
 *     ─logIn▶ SASLResponse ─SASLFinal, Ok▶ authenticated ─ReadyForQuery▶ connected
 *
 *   challenged ─logIn, but the endpoint is paused▶ paused
 *   any of them ─error for the client▶ connected (the client gets it)
 *               ─error of the socket or compute, end, time-out▶ unavailable, too_many_connections, no_descriptors
 */
import { openServerSocket } from '../../postgres/server_socket.ts'
import {
  AUTHENTICATION,
  BACKEND_KEY_DATA,
  ERROR_RESPONSE,
  PASSWORD_MESSAGE,
  READY_FOR_QUERY,
} from '../wire/message_types.ts'
import { encodeMessage, int32, MESSAGE_HEAD, messageAt } from '../wire/messages.ts'
import { SCRAM, type ScramKeys } from '../wire/scram.ts'
import type { ComputeLocation } from '../../catalog/compute.ts'
import { announcesEnd, failureOf, failureOfSocket, type LoginFailure, type LoginOutcome } from './login_outcome.ts'
import { type ScramClient, scramClient } from './scram_client.ts'

/** Kinds of Authentication messages (Postgres manual, "Message Formats"). */
const [OK, SASL, SASL_CONTINUE, SASL_FINAL] = [0, 10, 11, 12] as const

/** Limit of the bytes that a compute sends before ReadyForQuery. */
const MAX_FIRST_BYTES = 65_536

const CLOSED: LoginFailure = { is: 'unavailable', why: 'it closed the connection' }

/** A session at a compute that is being opened, up to the client's proof. */
export interface SessionOpening {
  readonly address: ComputeLocation
  /** Called when the attempt ends before `logIn`. */
  onLost: () => void
  /**
   * Logs in with the keys from the client's own login, and waits until the compute is ready for queries. Call it once.
   * @param isPaused called right before the proof is sent: from then on the compute knows of the session
   */
  logIn(keys: ScramKeys, isPaused: () => boolean, signal: AbortSignal): Promise<LoginOutcome>
  /** Closes the connection unless `logIn` was called. */
  drop(): void
}

/** Connects and runs the login up to the server's challenge, which needs no password. */
export function openSession(address: ComputeLocation, startup: Buffer): SessionOpening {
  const socket = openServerSocket(address)
  const scram = scramClient()
  const answered = Promise.withResolvers<LoginOutcome>()
  let challenge: string | undefined
  let prove: ((challenge: string) => void) | undefined
  let settled = false

  function done(outcome: LoginOutcome): void {
    if (settled) return
    settled = true
    socket.off('data', read).off('end', ended).off('close', ended)
    socket.pause()
    // Before `logIn` the session has no owner that would close it.
    if (outcome.is !== 'connected' || !prove) socket.destroy()
    answered.resolve(outcome)
    if (!prove) opening.onLost()
  }

  const ended = (): void => done(CLOSED)
  const send = (...parts: Buffer[]): void => void socket.write(encodeMessage(PASSWORD_MESSAGE, ...parts))
  const read = readLogin(scram, {
    send,
    challenged(text) {
      challenge = text
      prove?.(text)
    },
    connected: (first, key) => done({ is: 'connected', socket, first, key }),
    failed: done,
    isSettled: () => settled,
  })

  // Stays for the socket's lifetime: 'close' follows every error, and the session handles that.
  socket.on('error', (error: NodeJS.ErrnoException) => done(failureOfSocket(error)))
  socket.on('data', read).on('end', ended).on('close', ended)
  socket.once('connect', () => socket.write(startup))

  const opening: SessionOpening = {
    address,
    onLost: () => {},
    async logIn(keys, isPaused, signal) {
      const stopped = (): void => done({ is: 'unavailable', why: 'it did not answer in time' })
      prove = (serverFirst) => {
        if (isPaused()) done({ is: 'paused', why: 'the endpoint is paused' })
        else send(Buffer.from(scram.prove(serverFirst, keys) ?? ''))
      }
      if (signal.aborted) stopped()
      signal.addEventListener('abort', stopped)
      if (challenge !== undefined) prove(challenge)
      const outcome = await answered.promise
      signal.removeEventListener('abort', stopped)
      return outcome
    },
    drop: () => {
      if (!prove) socket.destroy()
    },
  }
  return opening
}

interface LoginEvents {
  /** Sends a response to the compute. */
  send(...parts: Buffer[]): void
  challenged(challenge: string): void
  /**
   * @param first bytes for the client: from the end of the login on, or an error
   * @param key the body of BackendKeyData
   */
  connected(first: Buffer, key: Buffer | undefined): void
  failed(failure: LoginFailure): void
  /** Whether the outcome is known: later messages are not read. */
  isSettled(): boolean
}

/** Returns a function that reads the compute's messages, chunk after chunk. */
function readLogin(scram: ScramClient, events: LoginEvents): (chunk: Buffer) => void {
  let bytes: Buffer = Buffer.alloc(0)
  let at = 0
  /** Offset of the client's first bytes, once the login is over. */
  let begins: number | undefined
  let key: Buffer | undefined

  function authenticate(body: Buffer): void {
    const kind = body.readInt32BE(0)
    const data = body.toString('utf8', 4)
    if (kind === OK) begins = at
    else if (kind === SASL) events.send(Buffer.from(`${SCRAM}\0`), int32(scram.first.length), Buffer.from(scram.first))
    else if (kind === SASL_CONTINUE) events.challenged(data)
    else if (kind !== SASL_FINAL || !scram.isServer(data))
      events.failed({ is: 'unavailable', why: 'it does not know the password of the role' })
  }

  /** Treat FATAL right after ReadyForQuery as a failed connect: the client has received no byte of the session yet. */
  function ready(first: Buffer): void {
    if (announcesEnd(messageAt(bytes, at, MAX_FIRST_BYTES))) events.failed(CLOSED)
    else events.connected(first, key)
  }

  function refused(body: Buffer, message: Buffer): void {
    const failure = failureOf(body)
    if (failure) events.failed(failure)
    else events.connected(Buffer.from(message), key)
  }

  return (chunk) => {
    bytes = bytes.length > 0 ? Buffer.concat([bytes, chunk]) : chunk
    while (!events.isSettled()) {
      const message = messageAt(bytes, at, MAX_FIRST_BYTES)
      if (message === undefined) return
      if (message === 'invalid') return events.failed({ is: 'unavailable', why: 'it does not speak as Postgres does' })
      const from = at
      at += MESSAGE_HEAD + message.body.length
      if (message.type === ERROR_RESPONSE) return refused(message.body, bytes.subarray(from, at))
      if (message.type === AUTHENTICATION) authenticate(message.body)
      else if (message.type === BACKEND_KEY_DATA) key = Buffer.from(message.body)
      else if (message.type === READY_FOR_QUERY) return ready(bytes.subarray(begins ?? from))
    }
  }
}
