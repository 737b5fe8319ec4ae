import { MESSAGE_HEAD } from '../wire/messages.ts'
import { BIND, PARSE, QUERY } from '../wire/message_types.ts'
import type { Loss } from './borrower.ts'

/** SQLSTATE of a server that was told to end: it has rolled back the work in progress. */
export const ADMIN_SHUTDOWN = '57P01'

/**
 * Commands that commit while they run or have effects that a rollback does not undo, and comments, which hide a command
 * from this check.
 */
const COMMITS_WITHIN =
  /^\s*(call|do|vacuum|reindex|cluster|create\s+(unique\s+)?index|drop\s+index|create\s+database|drop\s+database|copy|\/\*|--)/i

/**
 * Whether the client's messages may run again on another server connection after their own was told to end. No
 * transaction was open, and no byte of a response came: a server reports a commit before it reports its own end, so
 * there was no commit. A new session shows whether the compute ended or only this session.
 * @param sent all bytes that the client sent to that server
 * @param textOf the text of a prepared statement
 */
export function mayRepeat(loss: Loss, sent: Buffer, textOf: (name: string) => string | undefined): boolean {
  if (sent.length === 0 || loss.answered || loss.midMessage || loss.fatal?.code !== ADMIN_SHUTDOWN) return false
  return textsOf(sent, textOf).every((text) => !COMMITS_WITHIN.test(text))
}

/** Stands for an unknown text, which may hold any command. */
const UNKNOWN_TEXT = '--'

/** Bytes of a text that are checked. */
const CHECKED_BYTES = 256

/** The beginnings of the texts in Query and Parse messages, and of the statements that Bind messages name. */
function textsOf(sent: Buffer, textOf: (name: string) => string | undefined): string[] {
  const texts: string[] = []
  for (let at = 0; at + MESSAGE_HEAD <= sent.length; at += 1 + sent.readInt32BE(at + 1)) {
    const from = at + MESSAGE_HEAD
    const type = sent[at]
    if (type === QUERY) texts.push(sent.toString('latin1', from, from + CHECKED_BYTES))
    const second = sent.indexOf(0, from) + 1
    if (type === PARSE) texts.push(sent.toString('latin1', second, second + CHECKED_BYTES))
    if (type === BIND) texts.push(textOf(sent.toString('latin1', second, sent.indexOf(0, second))) ?? UNKNOWN_TEXT)
  }
  return texts
}
