import { ENDS, type Failure, ROLLED_BACK, UNKNOWN_OUTCOME } from './aborted.ts'
import type { Loss } from './borrower.ts'
import { MESSAGE_HEAD } from '../messages.ts'
import { BIND, EXECUTE, FAILED, IDLE, PARSE, QUERY } from '../message_types.ts'
import { textsOf } from './repeat.ts'
import { isOneRequest } from './session_reset.ts'

/**
 * What a client is told whose server is gone, and the state of its transaction then. One that was open is rolled back for certain unless it
 * may have been committed just then, and is over in any case where its end was asked for.
 * @param sent all that was sent since the last ReadyForQuery that left nothing unanswered, as far as it is known
 * @param textOf how the text begins of a statement that the client has prepared
 */
export function outcomeOf(
  { said, status }: Loss,
  sent: Buffer | undefined,
  textOf: (name: string) => string | undefined,
): { failure: Failure; status: number } {
  // That it ends because it is told to is no answer.
  const own = said && !said.code.startsWith('57P') ? said : undefined
  if (status === IDLE || !sent) return { failure: own ?? UNKNOWN_OUTCOME, status: status === IDLE ? IDLE : FAILED }
  const isEnd = isOneRequest(sent) && textsOf(sent, textOf).some((text) => ENDS.test(text))
  const failure = own ?? (mayCommit(sent, textOf) ? UNKNOWN_OUTCOME : ROLLED_BACK)
  return { failure, status: isEnd ? IDLE : FAILED }
}

const MAY_COMMIT = /\b(commit|end|prepare\s+transaction)\b|^\s*(--|\/\*)/i

/** Whether what was sent within an open transaction may have committed that. */
function mayCommit(sent: Buffer, textOf: (name: string) => string | undefined): boolean {
  const parsed = new Set<string>()
  let isBound = false
  for (let at = 0; at + MESSAGE_HEAD <= sent.length; at += 1 + sent.readInt32BE(at + 1)) {
    const from = at + MESSAGE_HEAD
    const end = at + 1 + sent.readInt32BE(at + 1)
    const type = sent[at]
    const second = sent.indexOf(0, from) + 1
    if (type === QUERY && MAY_COMMIT.test(sent.toString('latin1', from, end))) return true
    if (type === PARSE) {
      parsed.add(sent.toString('latin1', from, second - 1))
      if (MAY_COMMIT.test(sent.toString('latin1', second, end))) return true
    }
    if (type === BIND) {
      isBound = true
      const name = sent.toString('latin1', second, sent.indexOf(0, second))
      const text = parsed.has(name) ? '' : textOf(name)
      if (text === undefined || MAY_COMMIT.test(text)) return true
    }
    // What it executes was bound before.
    if (type === EXECUTE && !isBound) return true
  }
  return false
}
