import { ProxyError } from '../errors.ts'
import { MESSAGE_HEAD } from '../messages.ts'
import { BIND, COPY_DATA, COPY_DONE, COPY_FAIL, TERMINATE } from '../message_types.ts'
import type { PoolServer } from './server_interface.ts'
import type { Translator } from './translate.ts'

/** As in Postgres. */
const LONGEST = 2 ** 30
/** Of what has to be read whole: the text of a statement with a name, and names. */
const LONGEST_WHOLE = 16 * 2 ** 20

const NONE = Buffer.alloc(0)

/** What a pooled client sends, message by message: only heads are read, and long bodies pass in pieces as they come. */
export interface Requests {
  /** Sends a server what came of the client, which is valid only until this returns. Answers whether the client has said goodbye. Errors: malformed, unpoolable. */
  forward(server: PoolServer, bytes: Buffer): boolean
  /**
   * Cuts what came into whole messages and the beginning of one, for a client that has no server. What is left of a message whose beginning
   * a lost server got, and data for a COPY that is over, is dropped. Errors: malformed.
   */
  cut(bytes: Buffer): { readonly messages: Buffer[]; readonly tail: Buffer }
  /** Whether a server has been sent the beginning of a message only. */
  isMidMessage(): boolean
  /** The beginning of a message of which no server has been sent anything; empty if there is none. */
  begun(): Buffer
  /** Begins anew with the message whose first byte comes next. */
  restart(): void
}

export function createRequests(translator: Translator): Requests {
  /** The beginning of a message that is not yet to be told from others, and how much there must be to go on. */
  let rest: Buffer[] = []
  let restLength = 0
  let needed = 0
  /** How much is to come of a message that needs no look. */
  let passing = 0
  /* What is being forwarded, how far that has been looked at, and from where on it is not among the pieces that are to be sent. */
  let incoming: Buffer = NONE
  let looked = 0
  let from = 0
  let pieces: Buffer[] = []

  function replace(end: number, ...by: Buffer[]): void {
    if (looked > from) pieces.push(incoming.subarray(from, looked))
    pieces.push(...by)
    from = end
  }

  /** What is to be sent of the bytes up to there. */
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
    // Of a Bind, whose values may be long, no more than its names.
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

/** How many bytes the message has that begins at `at`, type and all. Errors: malformed. */
function lengthAt(bytes: Buffer, at: number): number {
  const length = bytes.readInt32BE(at + 1)
  if (length < 4 || length > LONGEST) throw new ProxyError('malformed', { text: 'invalid message length' })
  return 1 + length
}
