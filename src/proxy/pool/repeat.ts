import { MESSAGE_HEAD } from '../messages.ts'
import { BIND, PARSE, QUERY } from '../message_types.ts'
import type { Loss } from './borrower.ts'

/** What a server says when it ends because it is told to: what it was doing it has undone. */
export const ADMIN_SHUTDOWN = '57P01'

/** Commands that commit while they run, or do what no rollback undoes; and what hides a command from this look. */
const COMMITS_WITHIN =
  /^\s*(call|do|vacuum|reindex|cluster|create\s+(unique\s+)?index|drop\s+index|create\s+database|drop\s+database|copy|\/\*|--)/i

/**
 * Whether what a client has sent can be run again at another server, its own having been told to end. No transaction was open, and not a byte
 * of an answer came: what a server has committed it says before it says that it ends, so this was not. Whether it was the compute that ended, and not this session alone, a new session shows.
 * @param sent all that the client sent to that server
 * @param textOf how the text begins of a statement that it has prepared
 */
export function mayRepeat(loss: Loss, sent: Buffer, textOf: (name: string) => string | undefined): boolean {
  if (sent.length === 0 || loss.answered || loss.midMessage || loss.said?.code !== ADMIN_SHUTDOWN) return false
  return textsOf(sent, textOf).every((text) => !COMMITS_WITHIN.test(text))
}

/** Stands for a text that is unknown: it may hold any command. */
const HIDDEN = '--'

/** How many bytes of a text are looked at. */
const LOOKED_AT = 256

/** How the texts begin that were sent, or whose statements were bound. */
function textsOf(sent: Buffer, textOf: (name: string) => string | undefined): string[] {
  const texts: string[] = []
  for (let at = 0; at + MESSAGE_HEAD <= sent.length; at += 1 + sent.readInt32BE(at + 1)) {
    const from = at + MESSAGE_HEAD
    const type = sent[at]
    if (type === QUERY) texts.push(sent.toString('latin1', from, from + LOOKED_AT))
    const second = sent.indexOf(0, from) + 1
    if (type === PARSE) texts.push(sent.toString('latin1', second, second + LOOKED_AT))
    if (type === BIND) texts.push(textOf(sent.toString('latin1', second, sent.indexOf(0, second))) ?? HIDDEN)
  }
  return texts
}
