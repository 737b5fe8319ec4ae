import type { Socket } from 'node:net'
import { ERROR_RESPONSE } from '../wire/message_types.ts'
import { errorFields, type Message } from '../wire/messages.ts'

/**
 * Result of a connection to a compute. `connected`: the session is ready, or was refused with an error for the client.
 * `unavailable`: the compute is dead, stopping or not up yet. `too_many_connections`: it has no free connection slot.
 * `paused`: the endpoint was paused before the login ended. `no_descriptors`: this process has no free file descriptor.
 */
export type LoginOutcome =
  | {
      readonly is: 'connected'
      readonly socket: Socket
      /** Bytes for the client: from the end of the login to the first ReadyForQuery, or an error. */
      readonly first: Buffer
      /** The body of BackendKeyData: the key to cancel the session's queries. */
      readonly key: Buffer | undefined
    }
  | { readonly is: 'unavailable' | 'too_many_connections' | 'paused' | 'no_descriptors'; readonly why: string }

export type LoginFailure = Exclude<LoginOutcome, { is: 'connected' }>

/** The compute is starting, stopping or was killed during the login. The next attempt reads its current state. */
const IS_UNAVAILABLE = /^57P0[123]$/
const TOO_MANY_CONNECTIONS = '53300'
/** Messages of 53300 errors that do not come from a limit that the user set. */
const NO_SLOT = /^(sorry, too many clients|remaining connection slots)/

/** Socket errors that do not mean that the compute is gone. A Unix socket with a full accept queue returns EAGAIN. */
const SOCKET_ERRORS: Readonly<Record<string, 'too_many_connections' | 'no_descriptors'>> = {
  EAGAIN: 'too_many_connections',
  EMFILE: 'no_descriptors',
  ENFILE: 'no_descriptors',
}

/** Returns the failure that an ErrorResponse of the login means. undefined for an error for the client. */
export function failureOf(body: Buffer): LoginFailure | undefined {
  const fields = errorFields(body)
  const code = fields.get('C') ?? ''
  if (IS_UNAVAILABLE.test(code)) return { is: 'unavailable', why: 'it is starting up or shutting down' }
  return code === TOO_MANY_CONNECTIONS && NO_SLOT.test(fields.get('M') ?? '')
    ? { is: 'too_many_connections', why: 'it has too many connections' }
    : undefined
}

export function failureOfSocket(error: NodeJS.ErrnoException): LoginFailure {
  return { is: SOCKET_ERRORS[error.code ?? ''] ?? 'unavailable', why: error.message }
}

/** Whether a message tells that the compute is starting, stopping or was killed. */
export const announcesEnd = (message: Message | 'invalid' | undefined): boolean =>
  typeof message === 'object' &&
  message.type === ERROR_RESPONSE &&
  IS_UNAVAILABLE.test(errorFields(message.body).get('C') ?? '')
