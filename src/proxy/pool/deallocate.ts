/*
 * DEALLOCATE of one statement in SQL. By it drivers free statements of the protocol, under the client's names, which
 * are not the names at the servers. As after a Close, the server may keep the statement: it gets a DEALLOCATE of an
 * empty statement instead, so that the response is that of Postgres, in a failed transaction too.
 */
import { encodeMessage } from '../wire/messages.ts'
import { PARSE, QUERY } from '../wire/message_types.ts'

/** Limit of bytes that are read; a quoted name of the maximum length fits. */
const MAX_LENGTH = 256

const DEALLOCATE =
  /^deallocate(?:\s+prepare)?(?:\s+(?!all\b)([a-z_\x80-\xff][\w$\x80-\xff]*)|\s*"((?:[^"]|"")+)")\s*;?\s*$/i

const [LETTER_D, LETTER_A] = [0x64, 0x61]

/**
 * A cheap check of the first and the third letter. A letter that has not come matches.
 * @param at where the text begins; `end` is where its message ends, possibly beyond the received bytes
 */
export const mayDeallocate = (bytes: Buffer, at: number, end: number): boolean =>
  isLetter(bytes[at], LETTER_D) && isLetter(bytes[at + 2], LETTER_A) && end - at <= MAX_LENGTH

const isLetter = (byte: number | undefined, lower: number): boolean => byte === undefined || (byte | 0x20) === lower

/**
 * The name of the statement that a text frees and that may be one of the protocol. Returns undefined for all other
 * texts.
 * @param at where the text begins in its whole message
 */
export function deallocatedName(bytes: Buffer, at: number): string | undefined {
  const [, plain, quoted] = DEALLOCATE.exec(bytes.toString('latin1', at, bytes.indexOf(0, at))) ?? []
  // Each character is one byte, and Postgres folds the case of ASCII letters only.
  return quoted?.replaceAll('""', '"') ?? plain?.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

/** The simple queries that free an empty statement; the first is one of the pooler. */
export const freeByQuery = (number: number): readonly [Buffer, Buffer] => [
  encodeMessage(QUERY, Buffer.from(`PREPARE ${emptyName(number)} AS SELECT\0`)),
  encodeMessage(QUERY, Buffer.from(`DEALLOCATE ${emptyName(number)}\0`)),
]

/** The Parse of an empty statement, which is one of the pooler, and that of the unnamed statement that frees it. */
export const freeByParse = (number: number): readonly [Buffer, Buffer] => [
  encodeMessage(PARSE, Buffer.from(`${emptyName(number)}\0\0\0\0`)),
  encodeMessage(PARSE, Buffer.from(`\0DEALLOCATE ${emptyName(number)}\0\0\0`)),
]

/** The name is new each time: PREPARE fails if one was not freed, as after a cancel request. */
const emptyName = (number: number): string => `neap_freed_${number}`
