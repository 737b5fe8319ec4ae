import { connect, type Socket } from 'node:net'
import { computeAddress, type ComputeLocation, type ConnectTarget } from '../../catalog/compute.ts'
import { AUTHENTICATION, BACKEND_KEY_DATA, ERROR_RESPONSE, PASSWORD_MESSAGE, READY_FOR_QUERY } from '../wire/message_types.ts'
import { encodeMessage, errorFields, int32, MESSAGE_HEAD, messageAt } from '../wire/messages.ts'
import { SCRAM, type ScramKeys } from '../wire/scram.ts'
import { scramClient } from './scram_client.ts'

/**
 * Result of a connection to a compute. `there`: the session is ready, or was refused with an error for the client.
 * `gone`: the compute is dead, stopping or not up yet. `full`: it has no free connection slot. `held`: the endpoint was
 * paused before the login ended. `unasked`: unknown, since this process has no free file descriptor.
 */
export type LoginOutcome =
  | {
      readonly is: 'there'
      readonly socket: Socket
      /** Bytes for the client: from the end of the login to the first ReadyForQuery, or an error. */
      readonly first: Buffer
      /** The body of BackendKeyData: the key to cancel the session's queries. */
      readonly key: Buffer | undefined
    }
  | { readonly is: 'gone' | 'full' | 'held' | 'unasked'; readonly why: string }

export type SessionAddress = ComputeLocation

/** Kinds of Authentication messages (Postgres manual, "Message Formats"). */
const [SASL, SASL_CONTINUE, SASL_FINAL] = [10, 11, 12] as const

/** The compute is starting, stopping or was killed during the login. The next attempt reads its current state. */
const IS_GONE = /^57P0[123]$/
const TOO_MANY_CONNECTIONS = '53300'
/** Messages of 53300 errors that do not come from a limit that the user set. */
const NO_SLOT = /^(sorry, too many clients|remaining connection slots)/

/** Socket errors that do not mean that the compute is gone. A Unix socket with a full accept queue returns EAGAIN. */
const MEANING: Readonly<Record<string, 'full' | 'unasked'>> = { EAGAIN: 'full', EMFILE: 'unasked', ENFILE: 'unasked' }

/** Limit of the bytes that a compute sends before ReadyForQuery. */
const MAX_FIRST_BYTES = 65_536

/** Opens a socket to a compute. As in libpq, a host that begins with a slash is the directory of the Unix socket. */
export function openCompute({ host, port }: SessionAddress): Socket {
  const options = { allowHalfOpen: true, noDelay: true, keepAlive: true }
  return host.startsWith('/')
    ? connect({ ...options, path: `${host}/.s.PGSQL.${port}` })
    : connect({ ...options, host, port })
}

/** The address of the endpoint's compute. undefined when no compute runs. */
export const addressOf = (target: ConnectTarget): SessionAddress | undefined =>
  target.current_state === 'active' ? computeAddress(target) : undefined

/** A session at a compute that is being opened, up to the client's proof. */
export interface SessionOpening {
  readonly address: SessionAddress
  /** Called when the attempt ends before `logIn`. */
  onLost: () => void
  /**
   * Logs in with the keys from the client's own login, and waits until the compute is ready for queries. Call it once.
   * @param isHeld called right before the proof is sent: from then on the compute knows of the session
   */
  logIn(keys: ScramKeys, isHeld: () => boolean, signal: AbortSignal): Promise<LoginOutcome>
  /** Closes the connection unless `logIn` was called. */
  drop(): void
}

/** Connects and runs the login up to the server's challenge, which needs no password. */
export function openSession(address: SessionAddress, startup: Buffer): SessionOpening {
  const socket = openCompute(address)
  const scram = scramClient()
  const answered = Promise.withResolvers<LoginOutcome>()
  let prove: ((challenge: string) => void) | undefined
  let challenge: string | undefined
  let bytes: Buffer = Buffer.alloc(0)
  /** Offset of the client's first bytes, once the login is over. */
  let begins: number | undefined
  let at = 0
  let key: Buffer | undefined
  let settled = false

  function done(answer: LoginOutcome): void {
    if (settled) return
    settled = true
    socket.off('data', read).off('end', ended).off('close', ended)
    socket.pause()
    if (answer.is !== 'there') socket.destroy()
    answered.resolve(answer)
    if (!prove) opening.onLost()
  }

  const pass = (first: Buffer): void => done({ is: 'there', socket, first, key })

  function read(chunk: Buffer): void {
    bytes = bytes.length > 0 ? Buffer.concat([bytes, chunk]) : chunk
    while (!settled) {
      const message = messageAt(bytes, at, MAX_FIRST_BYTES)
      if (message === undefined) return
      if (message === 'invalid') return done({ is: 'gone', why: 'it does not speak as Postgres does' })
      const from = at
      at += MESSAGE_HEAD + message.body.length
      if (message.type === ERROR_RESPONSE) return refused(message.body, bytes.subarray(from, at))
      if (message.type === AUTHENTICATION) authenticate(message.body)
      else if (message.type === BACKEND_KEY_DATA) key = Buffer.from(message.body)
      else if (message.type === READY_FOR_QUERY) return endsAtOnce() ? ended() : pass(bytes.subarray(begins ?? from))
    }
  }

  /** Treat FATAL right after ReadyForQuery as a failed connect: the client has received no byte of the session yet. */
  function endsAtOnce(): boolean {
    const next = messageAt(bytes, at, MAX_FIRST_BYTES)
    return (
      typeof next === 'object' && next.type === ERROR_RESPONSE && IS_GONE.test(errorFields(next.body).get('C') ?? '')
    )
  }

  function authenticate(body: Buffer): void {
    const kind = body.readInt32BE(0)
    const data = body.toString('utf8', 4)
    if (kind === 0) begins = at
    else if (kind === SASL) send(Buffer.from(`${SCRAM}\0`), int32(scram.first.length), Buffer.from(scram.first))
    else if (kind === SASL_CONTINUE) {
      challenge = data
      prove?.(challenge)
    } else if (kind !== SASL_FINAL || !scram.isServer(data))
      done({ is: 'gone', why: 'it does not know the password of the role' })
  }

  const send = (...parts: Buffer[]): void => void socket.write(encodeMessage(PASSWORD_MESSAGE, ...parts))

  function refused(body: Buffer, message: Buffer): void {
    const fields = errorFields(body)
    const code = fields.get('C') ?? ''
    if (IS_GONE.test(code)) done({ is: 'gone', why: 'it is starting up or shutting down' })
    else if (code === TOO_MANY_CONNECTIONS && NO_SLOT.test(fields.get('M') ?? ''))
      done({ is: 'full', why: 'it has too many connections' })
    else pass(Buffer.from(message))
  }

  function ended(): void {
    done({ is: 'gone', why: 'it closed the connection' })
  }

  // Stays for the socket's lifetime: 'close' follows every error, and the session handles that.
  socket.on('error', (error: NodeJS.ErrnoException) => {
    done({ is: MEANING[error.code ?? ''] ?? 'gone', why: error.message })
  })
  socket.on('data', read).on('end', ended).on('close', ended)
  socket.once('connect', () => socket.write(startup))

  const opening: SessionOpening = {
    address,
    onLost: () => {},
    async logIn(keys, isHeld, signal) {
      const stopped = (): void => done({ is: 'gone', why: 'it did not answer in time' })
      prove = (serverFirst) => {
        if (isHeld()) done({ is: 'held', why: 'the endpoint is held' })
        else send(Buffer.from(scram.prove(serverFirst, keys) ?? ''))
      }
      if (signal.aborted) stopped()
      signal.addEventListener('abort', stopped)
      if (challenge !== undefined) prove(challenge)
      const answer = await answered.promise
      signal.removeEventListener('abort', stopped)
      return answer
    },
    drop: () => {
      if (!prove) socket.destroy()
    },
  }
  return opening
}
