/*
 * Reads a pooled client's messages. Only heads are read, and long bodies pass in the chunks in which they come. Between
 * two chunks the client is at a boundary of messages, or
 *
 *   boundary ──the head of a message that goes on──▶ passing: its rest is forwarded unread ──its end──▶ boundary
 *   boundary ──too few bytes to examine──▶ begun: kept, no server has received them ──enough bytes──▶ boundary
 */
import { ProxyError } from '../wire/errors.ts'
import { MESSAGE_HEAD } from '../wire/messages.ts'
import { BIND, COPY_DATA, COPY_DONE, COPY_FAIL, TERMINATE } from '../wire/message_types.ts'
import { beginRewrite, createRewrite, endRewrite, type Replace, replaceUpTo } from './rewrite.ts'
import type { PoolServer } from './server_interface.ts'
import type { Translator } from './translate.ts'

/** Maximum length of a message, as in Postgres. */
const MAX_LENGTH = 2 ** 30
/** Maximum length of parts that are read whole: the text of a named statement, and names. */
const MAX_WHOLE_LENGTH = 16 * 2 ** 20

const NONE = Buffer.alloc(0)

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
  split(bytes: Buffer): SplitRequests
  /** Whether a server received only the beginning of a message. */
  isMidMessage(): boolean
  /** The beginning of a message of which no server has received a byte; may be empty. */
  begun(): Buffer
  /** Starts over: the next byte begins a message. */
  restart(): void
}

export interface SplitRequests {
  readonly messages: Buffer[]
  readonly tail: Buffer
}

/** Where the client is between two chunks. One of the lengths is always 0; at a boundary both are. */
interface Position {
  /** In `begun`: the bytes so far, their length, and the length that is needed. */
  begun: Buffer[]
  begunLength: number
  neededLength: number
  /** In `passing`: bytes to come. */
  passingLength: number
}

export function createRequests(translator: Translator): Requests {
  const position: Position = { begun: [], begunLength: 0, neededLength: 0, passingLength: 0 }
  const rewrite = createRewrite()
  const replace: Replace = (end, ...by) => replaceUpTo(rewrite, end, by)

  return {
    forward(server, chunk) {
      const bytes = joinBegun(position, chunk)
      if (!bytes) return false
      beginRewrite(rewrite, bytes, passOn(position, bytes))
      let isTerminated = false
      while (bytes.length - rewrite.examined >= MESSAGE_HEAD) {
        const at = rewrite.examined
        const type = bytes[at] ?? 0
        const end = at + lengthAt(bytes, at)
        if (type === TERMINATE) {
          isTerminated = true
          replace(bytes.length)
          rewrite.examined = bytes.length
        } else if (translator.translate(type, { bytes, body: at + MESSAGE_HEAD, end }, server, replace))
          rewrite.examined = end
        else break
      }
      const { examined } = rewrite
      if (examined < bytes.length) keepBegun(position, bytes.subarray(examined))
      else position.passingLength += examined - bytes.length
      const outgoing = endRewrite(rewrite, Math.min(examined, bytes.length))
      if (outgoing.length > 0) server.send(outgoing)
      return isTerminated
    },
    split: (chunk) => split(position, chunk),
    isMidMessage: () => position.passingLength > 0,
    begun: () => (position.begunLength === 0 ? NONE : Buffer.concat(position.begun)),
    restart() {
      position.passingLength = 0
      position.begunLength = 0
    },
  }
}

/** The chunk behind the bytes kept before it. Returns undefined, and keeps it too, while they are too few. */
function joinBegun(position: Position, chunk: Buffer): Buffer | undefined {
  if (position.begunLength === 0) return chunk
  position.begun.push(Buffer.from(chunk))
  position.begunLength += chunk.length
  if (position.begunLength < position.neededLength) return undefined
  position.begunLength = 0
  return Buffer.concat(position.begun)
}

/** Keeps the beginning of a message. Errors: malformed, unpoolable. */
function keepBegun(position: Position, bytes: Buffer): void {
  const length = bytes.length < MESSAGE_HEAD ? MESSAGE_HEAD : lengthAt(bytes, 0)
  // A Bind is read up to its names: its values may be long.
  const needed = bytes[0] === BIND ? Math.min(length, bytes.length * 2) : length
  if (needed > MAX_WHOLE_LENGTH)
    throw new ProxyError('unpoolable', { text: 'a prepared statement of more than 16 MB is not supported' })
  position.begun = [Buffer.from(bytes)]
  position.begunLength = bytes.length
  position.neededLength = needed
}

/** The number of bytes at the beginning of a chunk that belong to a message whose head was examined earlier. */
function passOn(position: Position, bytes: Buffer): number {
  const passing = Math.min(position.passingLength, bytes.length)
  position.passingLength -= passing
  return passing
}

function split(position: Position, chunk: Buffer): SplitRequests {
  const bytes = position.begunLength > 0 ? Buffer.concat([...position.begun, chunk]) : chunk
  position.begunLength = 0
  const messages: Buffer[] = []
  let at = passOn(position, bytes)
  while (bytes.length - at >= MESSAGE_HEAD) {
    const end = at + lengthAt(bytes, at)
    const type = bytes[at]
    if (end > bytes.length && type === COPY_DATA) {
      position.passingLength = end - bytes.length
      return { messages, tail: NONE }
    }
    if (end > bytes.length) break
    if (type !== COPY_DATA && type !== COPY_DONE && type !== COPY_FAIL) messages.push(bytes.subarray(at, end))
    at = end
  }
  return { messages, tail: bytes.subarray(at) }
}

/** Length of the message that begins at `at`, including its type. Errors: malformed. */
function lengthAt(bytes: Buffer, at: number): number {
  const length = bytes.readInt32BE(at + 1)
  if (length < 4 || length > MAX_LENGTH) throw new ProxyError('malformed', { text: 'invalid message length' })
  return 1 + length
}
