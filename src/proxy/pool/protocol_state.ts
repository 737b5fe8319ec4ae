/*
 * What a server has received and still has to answer (Postgres manual, "Extended Query", "COPY Operations").
 *
 *   batch   synced ──a message of the extended protocol──▶ open ──Sync──▶ synced
 *                                                            └──error, no Sync behind it──▶ failed ──Sync──▶ synced
 *   copy in    off ──CopyInResponse──▶ on ──CopyDone, CopyFail or an error──▶ off
 *
 * In `failed` the server skips messages up to the next Sync. While copy in is on, it ignores Sync.
 */
import { IDLE } from '../wire/message_types.ts'
import { createExpectedQueue, type Expected, type ExpectedQueue, type Refused } from './expected.ts'

export interface ProtocolState {
  readonly unanswered: ExpectedQueue
  batch: 'synced' | 'open' | 'failed'
  copyIn: boolean
  /**
   * A Sync was sent while copy in was on. The server ignores it, unless it has failed by then: after an error it is
   * unknown how many it answers.
   */
  syncInCopy: boolean
  /** The transaction status of the last ReadyForQuery. */
  status: number
  /** The error of the request that is being answered. */
  refused: Refused | undefined
}

export const createProtocolState = (): ProtocolState => ({
  unanswered: createExpectedQueue(),
  batch: 'synced',
  copyIn: false,
  syncInCopy: false,
  status: IDLE,
  refused: undefined,
})

/** No response is pending, and no transaction is open. */
export const isSettled = ({ unanswered, batch, status }: ProtocolState): boolean =>
  unanswered.length === 0 && batch === 'synced' && status === IDLE

/** Whether the response that is being read is to a message of the pooler. */
export const isHidden = ({ unanswered }: ProtocolState): boolean => unanswered.head()?.hidden === true

/**
 * Records a message, in the order of writing. Returns `answered` if it is not sent and the client can have its response
 * (`instead`) at once, and `skipped` if the server will skip it.
 */
export function recordSent(protocol: ProtocolState, entry: Expected): 'sent' | 'answered' | 'skipped' {
  const { unanswered, batch, copyIn } = protocol
  const { kind, instead } = entry
  if (batch === 'failed' && kind !== 'sync') return 'skipped'
  if (kind === 'copy_end') {
    if (!copyIn && unanswered.length > 0) unanswered.push(entry)
    protocol.copyIn = false
    return 'sent'
  }
  if (kind === 'sync' && copyIn) {
    protocol.syncInCopy = true
    return 'sent'
  }
  if (kind === 'sync') protocol.batch = 'synced'
  else if (kind !== 'query' && !instead) protocol.batch = 'open'
  if (instead && unanswered.length === 0) return 'answered'
  unanswered.push(entry)
  return 'sent'
}

/** The server asks for the data of a COPY. Returns whether it now waits for them. */
export function beginCopyIn(protocol: ProtocolState): boolean {
  protocol.copyIn = !protocol.unanswered.dropCopySyncs()
  return protocol.copyIn
}

/**
 * The server has failed at a message. Returns the messages of the extended protocol that have no effect: the one at
 * which it failed and those that it skips. Returns none for a query, which ReadyForQuery follows.
 */
export function failBatch(protocol: ProtocolState, refused: Refused): readonly Expected[] {
  const { unanswered } = protocol
  const head = unanswered.head()
  protocol.copyIn = false
  protocol.refused = refused
  if (!head || head.kind === 'query' || head.kind === 'sync') return NONE
  const dropped = unanswered.dropToSync()
  // During a COPY the server has ignored the batch's Sync: then no Sync is left here either.
  if (unanswered.length === 0) protocol.batch = 'failed'
  return dropped
}

const NONE: readonly Expected[] = []

/** The server is ready for a query. Returns the message that this answers, and reports to it. */
export function recordReady(protocol: ProtocolState, status: number): Expected | undefined {
  const { unanswered, refused } = protocol
  const head = unanswered.shift()
  protocol.status = status
  protocol.refused = undefined
  head?.onAnswer?.(refused)
  head?.onDone?.()
  return head
}
