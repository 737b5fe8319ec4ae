import { connect, type Socket } from 'node:net'
import { computeAddress, type ComputeLocation, type ConnectTarget } from '../catalog/endpoint.ts'
import { AUTHENTICATION, BACKEND_KEY_DATA, ERROR_RESPONSE, PASSWORD_MESSAGE, READY_FOR_QUERY } from './message_types.ts'
import { encodeMessage, errorFields, int32, MESSAGE_HEAD, messageAt } from './messages.ts'
import { SCRAM, scramClient, type ScramKeys } from './scram.ts'

/**
 * What came of connecting to a compute: the session is ready, or was refused for a reason that is the client's to hear; the compute is gone,
 * stopping or not up yet; it has no room just now; or the endpoint began to be held before the login was over. Or nothing is known of it,
 * since this process has no descriptor left to ask.
 */
export type LoginOutcome =
  | {
      readonly is: 'there'
      readonly socket: Socket
      /** What the client is to get: from what follows the login to the first ReadyForQuery, or an error. */
      readonly first: Buffer
      /** The body of BackendKeyData, by which what the session does can be cancelled. */
      readonly key: Buffer | undefined
    }
  | { readonly is: 'gone' | 'full' | 'held' | 'unasked'; readonly why: string }

export type SessionAddress = Pick<ComputeLocation, 'host' | 'port' | 'store'>

/** Which Authentication… message it is (Postgres manual, "Message Formats"). */
const [SASL, SASL_CONTINUE, SASL_FINAL] = [10, 11, 12] as const

/** It is starting, stopping, or was killed in the middle of the login: another turn finds it as it is then. */
const IS_GONE = /^57P0[123]$/
const TOO_MANY_CONNECTIONS = '53300'
/** Of the ways to have too many connections the ones that no limit of the user's sets. */
const NO_SLOT = /^(sorry, too many clients|remaining connection slots)/

/** What an error of the socket says, if not that the compute is gone. A Unix socket whose queue of connections is full says EAGAIN. */
const MEANING: Readonly<Record<string, 'full' | 'unasked'>> = { EAGAIN: 'full', EMFILE: 'unasked', ENFILE: 'unasked' }

/** Of what a compute sends until it is ready for queries. */
const MAX_FIRST_BYTES = 65_536

/** Opens a socket to a compute; a host that begins with a slash is the directory of its Unix socket, as in libpq. */
export function openCompute({ host, port }: SessionAddress): Socket {
  const options = { allowHalfOpen: true, noDelay: true, keepAlive: true }
  return host.startsWith('/')
    ? connect({ ...options, path: `${host}/.s.PGSQL.${port}` })
    : connect({ ...options, host, port })
}

/** Where the compute of an endpoint is, if one runs. */
export const addressOf = (target: ConnectTarget): SessionAddress | undefined =>
  target.current_state === 'active' ? computeAddress(target) : undefined

/** A session that is being opened at a compute, up to the proof of who wants it. */
export interface SessionOpening {
  readonly address: SessionAddress
  /** Told when it closed before anybody logged in. */
  onLost: () => void
  /**
   * Logs in with the keys that the client's own login brought to light, and waits until the compute is ready for queries. Once only.
   * @param isHeld asked right before the proof is sent: from then on the compute knows of the session
   */
  logIn(keys: ScramKeys, isHeld: () => boolean, signal: AbortSignal): Promise<LoginOutcome>
  /** Closes it, where nobody has logged in. */
  drop(): void
}

/** Connects, and goes as far as a server has anybody come who has shown nothing yet: to the question for the proof. */
export function openSession(address: SessionAddress, startup: Buffer): SessionOpening {
  const socket = openCompute(address)
  const scram = scramClient()
  const answered = Promise.withResolvers<LoginOutcome>()
  let prove: ((challenge: string) => void) | undefined
  let challenge: string | undefined
  let bytes: Buffer = Buffer.alloc(0)
  /** Where what the client is to get begins, once the login is over. */
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

  /** It was told to stop just when it was ready, and has said so already. Nobody has seen anything of it yet. */
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

  // Stays for the whole life of the socket: an error is always followed by 'close', on which the session acts.
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
