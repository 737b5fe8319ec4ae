import { abortedTransaction, encodeFailure, encodeReady, type StatementFailure, type PreparedNames } from './aborted.ts'
import type { Loss } from './borrower.ts'
import { IDLE, TERMINATE } from '../message_types.ts'
import type { LostRequest, LostOutcome } from './outcome.ts'
import { endsRequest } from './session_reset.ts'

export interface LostAnswers {
  readonly bytes: Buffer
  /** Whether there was anything to answer. */
  readonly isTold: boolean
  /** Whether the last request has not ended: it is passed over to its Sync. */
  readonly isOpen: boolean
}

/**
 * Answers the requests that a server did not answer to their end.
 * @param isFresh whether nothing of the first of them was answered
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
  return { bytes: Buffer.concat(answers), isTold: ends.length > 0, isOpen }
}

/** Answers a ROLLBACK of what is rolled back already. */
function rollBack({ messages }: LostRequest, names: PreparedNames): Buffer {
  const transaction = abortedTransaction(undefined, false, names)
  return Buffer.concat(messages.flatMap(({ bytes }) => transaction.answer(bytes) ?? []))
}

/** Answers requests that no server was sent, up to the client's goodbye. */
export function answerRefused(messages: readonly Buffer[], failure: StatementFailure): LostAnswers {
  const goodbye = messages.findIndex(([type]) => type === TERMINATE)
  const asked = goodbye < 0 ? messages : messages.slice(0, goodbye)
  const answers: Buffer[] = []
  let isOpen = false
  for (const [type] of asked) {
    const isEnd = endsRequest(type)
    if (!isOpen) answers.push(encodeFailure(failure))
    if (isEnd) answers.push(encodeReady(IDLE))
    isOpen = !isEnd
  }
  return { bytes: Buffer.concat(answers), isTold: answers.length > 0, isOpen }
}
