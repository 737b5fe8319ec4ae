import { abortedTransaction, encodeFailure, encodeReady, type StatementFailure, type PreparedNames } from './aborted.ts'
import type { Loss } from './borrower.ts'
import { IDLE, TERMINATE } from '../wire/message_types.ts'
import type { LostRequest, LostOutcome } from './outcome.ts'
import { endsRequest } from './session_reset.ts'

export interface LostAnswers {
  readonly bytes: Buffer
  /** Whether any request was without an answer. */
  readonly hasUnanswered: boolean
  /** Whether the last request has not ended: its messages are skipped up to its Sync. */
  readonly isOpen: boolean
}

/**
 * Answers the requests that a server has not answered to their end.
 * @param isFresh whether the client got no part of the response to the first of them
 */
export function answerLost(
  { unanswered }: Loss,
  { failure, requests, status }: LostOutcome,
  isFresh: boolean,
  names: PreparedNames,
): LostAnswers {
  const ends = unanswered.flatMap(({ kind }) => (kind === 'copy_end' ? [] : kind === 'query' || kind === 'sync'))
  const unknown = ends.filter(Boolean).length - requests.length
  const answers: Buffer[] = []
  let number = 0
  let isOpen = false
  for (const isEnd of ends) {
    const request = requests[number - unknown]
    const isUndone = request?.isRollback === true && (number > 0 || isFresh)
    if (!isOpen && !isUndone) answers.push(encodeFailure(failure))
    if (isEnd) answers.push(isUndone ? rollBack(request, names) : encodeReady(request?.status ?? status))
    if (isEnd) number++
    isOpen = !isEnd
  }
  return { bytes: Buffer.concat(answers), hasUnanswered: ends.length > 0, isOpen }
}

/** Answers a ROLLBACK of a transaction that is already rolled back. */
function rollBack({ messages }: LostRequest, names: PreparedNames): Buffer {
  const transaction = abortedTransaction(undefined, false, names)
  return Buffer.concat(messages.flatMap(({ bytes }) => transaction.answer(bytes) ?? []))
}

/** Answers requests that no server received, up to the client's Terminate. */
export function answerRefused(messages: readonly Buffer[], failure: StatementFailure): LostAnswers {
  const terminate = messages.findIndex(([type]) => type === TERMINATE)
  const asked = terminate < 0 ? messages : messages.slice(0, terminate)
  const answers: Buffer[] = []
  let isOpen = false
  for (const [type] of asked) {
    const isEnd = endsRequest(type)
    if (!isOpen) answers.push(encodeFailure(failure))
    if (isEnd) answers.push(encodeReady(IDLE))
    isOpen = !isEnd
  }
  return { bytes: Buffer.concat(answers), hasUnanswered: answers.length > 0, isOpen }
}
