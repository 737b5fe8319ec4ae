import { encodeMessage, int32, MESSAGE_HEAD } from '../wire/messages.ts'
import { BIND, CLOSE, DESCRIBE, EXECUTE, FLUSH, FUNCTION_CALL, PARSE, QUERY, SYNC } from '../wire/message_types.ts'
import { MAX_KEPT } from './sent.ts'

/*
 * Before a session is lent to another client, all state that the last client may have left in it is discarded.
 * Statements and command tags do not reveal that state: any function, view, trigger or operator may set, lock, prepare
 * or create. DISCARD ALL is the command of Postgres for this (Postgres manual, DISCARD), and costs a few microseconds
 * where it needs no round trip of its own.
 */

const NO_VALUES = Buffer.alloc(8)

/**
 * Parse, Bind and Execute of DISCARD ALL without a Sync. DISCARD ALL commits by itself. If it fails, Postgres skips all
 * messages up to the next Sync (Postgres manual, "Extended Query"), so that no message of the next client runs in a
 * session that was not reset.
 */
export const RESET = Buffer.concat([
  encodeMessage(PARSE, Buffer.from('\0DISCARD ALL\0\0\0')),
  encodeMessage(BIND, NO_VALUES),
  encodeMessage(EXECUTE, Buffer.from('\0'), int32(0)),
])

/** The same with a Sync, which ReadyForQuery answers. */
export const RESET_AND_SYNC = Buffer.concat([RESET, encodeMessage(SYNC)])

/** Whether Postgres answers a message of that type with ReadyForQuery in the end. */
export const endsRequest = (type: number | undefined): boolean =>
  type === QUERY || type === FUNCTION_CALL || type === SYNC

const OF_BATCH = new Set([PARSE, BIND, DESCRIBE, EXECUTE, CLOSE, FLUSH])

/**
 * Whether the bytes are one query, or one batch with its Sync. Only these may follow a reset that is not yet answered:
 * behind a Sync, Postgres would continue after a reset that failed. They are kept until then, to be sent elsewhere.
 * @param bytes from the beginning of a message on
 */
export function isOneRequest(bytes: Buffer): boolean {
  if (bytes.length > MAX_KEPT) return false
  for (let at = 0; at + MESSAGE_HEAD <= bytes.length;) {
    const type = bytes[at] ?? 0
    const length = bytes.readInt32BE(at + 1)
    if (length < 4) return false
    const end = at + 1 + length
    if (type === SYNC) return end === bytes.length
    if (type === QUERY || type === FUNCTION_CALL) return at === 0 && end === bytes.length
    if (!OF_BATCH.has(type)) return false
    at = end
  }
  return false
}

const LETTER_D = 0x44

/** The tag that begins at `at`, if its first letter is that of DISCARD and DEALLOCATE; empty for most tags. */
export const discardingTag = (bytes: Buffer, at: number, end: number): string =>
  bytes[at] === LETTER_D ? bytes.toString('latin1', at, end - 1) : ''
