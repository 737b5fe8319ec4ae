import { ProxyError } from '../errors.ts'
import { MESSAGE_HEAD } from '../messages.ts'
import { BIND, COPY_DATA, COPY_DONE, COPY_FAIL, TERMINATE } from '../message_types.ts'
import type { PoolServer } from './server_interface.ts'
import type { Translator } from './translate.ts'

/** Maximum length of a message, as in Postgres. */
const LONGEST = 2 ** 30
/** Maximum length of parts that are read whole: the text of a named statement, and names. */
const LONGEST_WHOLE = 16 * 2 ** 20

const NONE = Buffer.alloc(0)

/** Reads a pooled client's messages: only heads are read, and long bodies pass in the chunks in which they come. */
export interface Requests {
  /**
   * Forwards the client's bytes, which are valid only until this returns, to a server. Returns whether the client has
   * sent Terminate. Errors: malformed, unpoolable.
   */
  forward(server: PoolServer, bytes: Buffer): boolean
  /**
   * Splits the received bytes into whole messages and the beginning of one, for a client without a server connection.
   * Drops the rest of a message that a lost server received in part, and messages of a COPY that is over.
   * Errors: malformed.
   */
  cut(bytes: Buffer): { readonly messages: Buffer[]; readonly tail: Buffer }
  /** Whether a server received only the beginning of a message. */
  isMidMessage(): boolean
  /** The beginning of a message of which no server has received a byte; may be empty. */
  begun(): Buffer
  /** Starts over: the next byte begins a message. */
  restart(): void
}

export function createRequests(translator: Translator): Requests {
  /** The beginning of a message that is too short to be examined, and the length that it needs. */
  let rest: Buffer[] = []
  let restLength = 0
  let needed = 0
  /** Bytes to come of a message that is forwarded without examination. */
  let passing = 0
  /*
   * The bytes being forwarded, the offset up to which they were examined, and the offset from which on they are not in
   * `pieces`.
   */
  let incoming: Buffer = NONE
  let looked = 0
  let from = 0
  let pieces: Buffer[] = []

  function replace(end: number, ...by: Buffer[]): void {
    if (looked > from) pieces.push(incoming.subarray(from, looked))
    pieces.push(...by)
    from = end
  }

  /** The bytes to send for the input up to `until`. */
  function replaced(until: number): Buffer {
    if (pieces.length === 0 && from === 0 && until === incoming.length) return incoming
    if (until > from) pieces.push(incoming.subarray(from, until))
    return pieces.length === 1 ? (pieces[0] ?? NONE) : Buffer.concat(pieces)
  }

  function take(bytes: Buffer): Buffer | undefined {
    if (restLength === 0) return bytes
    rest.push(Buffer.from(bytes))
    restLength += bytes.length
    if (restLength < needed) return undefined
    restLength = 0
    return Buffer.concat(rest)
  }

  function keep(bytes: Buffer): void {
    const length = bytes.length < MESSAGE_HEAD ? MESSAGE_HEAD : lengthAt(bytes, 0)
    // A Bind is read up to its names: its values may be long.
    needed = bytes[0] === BIND ? Math.min(length, bytes.length * 2) : length
    if (needed > LONGEST_WHOLE)
      throw new ProxyError('unpoolable', { text: 'a prepared statement of more than 16 MB is not supported' })
    rest = [Buffer.from(bytes)]
    restLength = bytes.length
  }

  return {
    forward(server, chunk) {
      const bytes = take(chunk)
      if (!bytes) return false
      incoming = bytes
      from = 0
      looked = Math.min(passing, bytes.length)
      passing -= looked
      let saidGoodbye = false
      while (bytes.length - looked >= MESSAGE_HEAD) {
        const type = bytes[looked] ?? 0
        const end = looked + lengthAt(bytes, looked)
        if (type === TERMINATE) {
          saidGoodbye = true
          replace(bytes.length)
          looked = bytes.length
        } else if (translator.translate(type, { bytes, body: looked + MESSAGE_HEAD, end }, server, replace))
          looked = end
        else break
      }
      if (looked < bytes.length) keep(bytes.subarray(looked))
      else passing += looked - bytes.length
      const outgoing = replaced(Math.min(looked, bytes.length))
      if (outgoing.length > 0) server.send(outgoing)
      incoming = NONE
      if (pieces.length > 0) pieces = []
      return saidGoodbye
    },
    cut(chunk) {
      const bytes = restLength > 0 ? Buffer.concat([...rest, chunk]) : chunk
      restLength = 0
      const messages: Buffer[] = []
      let at = Math.min(passing, bytes.length)
      passing -= at
      while (bytes.length - at >= MESSAGE_HEAD) {
        const end = at + lengthAt(bytes, at)
        const type = bytes[at]
        if (end > bytes.length && type === COPY_DATA) {
          passing = end - bytes.length
          return { messages, tail: NONE }
        }
        if (end > bytes.length) break
        if (type !== COPY_DATA && type !== COPY_DONE && type !== COPY_FAIL) messages.push(bytes.subarray(at, end))
        at = end
      }
      return { messages, tail: bytes.subarray(at) }
    },
    isMidMessage: () => passing > 0,
    begun: () => (restLength === 0 ? NONE : Buffer.concat(rest)),
    restart() {
      passing = 0
      restLength = 0
    },
  }
}

/** Length of the message that begins at `at`, including its type. Errors: malformed. */
function lengthAt(bytes: Buffer, at: number): number {
  const length = bytes.readInt32BE(at + 1)
  if (length < 4 || length > LONGEST) throw new ProxyError('malformed', { text: 'invalid message length' })
  return 1 + length
}
