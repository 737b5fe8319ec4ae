import { COMMAND_COMPLETE, ERROR_RESPONSE, PARAMETER_STATUS, READY_FOR_QUERY } from './message_types.ts'
import { MESSAGE_HEAD } from './messages.ts'

/** Messages that are read whole: short ones that report the state of the session. */
const READ_WHOLE = new Set([READY_FOR_QUERY, PARAMETER_STATUS, ERROR_RESPONSE, COMMAND_COMPLETE])
/** A longer one is examined by its beginning, which has all that matters: code in a compute chooses the length. */
const MAX_WHOLE = 65_536

const NONE = Buffer.alloc(0)

/** Reads a server's messages, and forwards those that the client gets in chunks as large as they came. */
export interface Reader {
  read(chunk: Buffer): void
  /** Forwards bytes that the server did not send, after the message that is being read. */
  insert(bytes: Buffer): void
  /** Whether only the beginning of a message has been forwarded. */
  isMidMessage(): boolean
}

/**
 * @param examine called for each message with its type, begin and end; the message may be incomplete, except for short
 *   ones that are read whole. Returns whether it is forwarded.
 * @param invalid called when bytes cannot be a message; reading stops then
 */
export function createReader(
  examine: (type: number, bytes: Buffer, at: number, end: number) => boolean,
  forward: (bytes: Buffer) => void,
  invalid: () => void,
): Reader {
  /** The beginning of a message, too short to be examined. */
  let rest: Buffer | undefined
  /** Bytes to come of a message whose head was examined, and whether they are forwarded. */
  let inBody = 0
  let bodyPasses = false
  let reading = false
  /** The bytes being read, and the offset from which on they are not forwarded yet. */
  let incoming: Buffer = NONE
  let from = 0
  const inserted: Buffer[] = []

  function flush(until: number): void {
    if (until > from) forward(until - from === incoming.length ? incoming : incoming.subarray(from, until))
    from = Math.max(from, until)
  }

  function read(chunk: Buffer): void {
    const bytes = rest ? Buffer.concat([rest, chunk]) : chunk
    incoming = bytes
    rest = undefined
    from = 0
    /** Offset up to which messages have been examined. */
    let at = Math.min(inBody, bytes.length)
    inBody -= at
    if (!bodyPasses) from = at
    for (;;) {
      if (inserted.length > 0 && inBody === 0) {
        flush(at)
        for (const made of inserted.splice(0)) forward(made)
      }
      if (bytes.length - at < MESSAGE_HEAD) break
      const type = bytes[at] ?? 0
      const length = bytes.readInt32BE(at + 1)
      if (length < 4) return invalid()
      const end = at + 1 + length
      if (end > bytes.length && READ_WHOLE.has(type) && bytes.length - at < MAX_WHOLE) break
      bodyPasses = examine(type, bytes, at, end)
      if (!bodyPasses) {
        flush(at)
        from = end
      }
      at = end
      if (at > bytes.length) {
        inBody = at - bytes.length
        break
      }
    }
    if (at < bytes.length) rest = Buffer.from(bytes.subarray(at))
    flush(Math.min(at, bytes.length))
    incoming = NONE
  }

  return {
    read(chunk) {
      reading = true
      read(chunk)
      reading = false
    },
    insert(bytes) {
      if (reading || inBody > 0) inserted.push(bytes)
      else forward(bytes)
    },
    isMidMessage: () => inBody > 0 && bodyPasses,
  }
}
