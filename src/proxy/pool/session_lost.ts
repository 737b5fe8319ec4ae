/* A pooled client whose server connection has ended while it was lent. */
import { refuse } from '../wire/close.ts'
import { ProxyError } from '../wire/errors.ts'
import { FAILED, IDLE } from '../wire/message_types.ts'
import { abortedTransaction, UNKNOWN_OUTCOME } from './aborted.ts'
import type { Loss } from './borrower.ts'
import { answerLost } from './lost_requests.ts'
import { outcomeOf } from './outcome.ts'
import { mayRepeat } from './repeat.ts'
import type { Sent } from './sent.ts'
import { leave, stopKeeping } from './session_lent.ts'
import { type PooledClient, toAborted, toIdle, toSkipping, toWaiting } from './session_state.ts'
import { acquire, beginPending, failPending, failWaiting, processPending } from './session_waiting.ts'

/** SQLSTATE of a server that ends because it cannot parse a message. */
const PROTOCOL_VIOLATION = '08P01'

type Reaction =
  /** No message has run: send them to any server connection. */
  | 'resend'
  /** They had no effect: send them to the next compute. */
  | 'repeat'
  /** The server could no longer find message boundaries: close the client's connection. */
  | 'refuse as malformed'
  /** The client has received a part of a message: close its connection. */
  | 'refuse as lost'
  /** Answer them with an error. */
  | 'answer'

/** @param textOf the text of a prepared statement */
export function reactionTo(loss: Loss, sent: Sent, textOf: (name: string) => string | undefined): Reaction {
  if (loss.neverRan) return 'resend'
  if (mayRepeat(loss, Buffer.concat(sent.unanswered()), textOf)) return 'repeat'
  // A message other than data came within a COPY.
  if (loss.fatal?.code === PROTOCOL_VIOLATION) return 'refuse as malformed'
  return loss.midMessage ? 'refuse as lost' : 'answer'
}

export function loseServer(client: PooledClient, loss: Loss): void {
  const { stream, sent, texts, asError } = client
  toIdle(client)
  switch (reactionTo(loss, sent, texts.textOf)) {
    case 'resend':
      recall(client)
      return client.isCancelled ? failWaiting(client, new ProxyError('cancelled')) : acquire(client)
    case 'repeat':
      recall(client)
      return repeat(client, loss)
    case 'refuse as malformed':
      return refuse(stream, asError(new ProxyError('malformed', { text: 'protocol synchronization was lost' })))
    case 'refuse as lost':
      return refuse(stream, asError(new ProxyError('compute_lost')))
    case 'answer':
      answerLostRequests(client, loss)
      if (client.isTerminated) return leave(client)
      stream.resume()
      // Bytes received during a reset were not sent.
      if (client.pending.length > 0) processPending(client)
  }
}

/** Answers the messages that a lost server received. */
function answerLostRequests(client: PooledClient, loss: Loss): void {
  const { requests, sent, translator, stream, texts } = client
  // No server received the message that the client has only begun.
  const messages = requests.begun().length > 0 ? sent.messages()?.slice(0, -1) : sent.messages()
  const outcome = outcomeOf(loss, messages, texts)
  const isFresh = !sent.isAnswered()
  stopKeeping(client)
  for (const { statement, name, onDropped } of loss.unanswered.toReversed()) {
    onDropped?.(true)
    if (statement && name !== undefined) translator.forget(statement, name)
  }
  const { bytes, hasUnanswered, isOpen } = answerLost(loss, outcome, isFresh, texts)
  if (hasUnanswered) stream.write(bytes)
  if (outcome.status === FAILED)
    toAborted(client, abortedTransaction(hasUnanswered ? undefined : outcome.failure, isOpen, texts))
  else if (isOpen) toSkipping(client, undefined)
  // An implicit transaction ends with its Sync.
  else if (outcome.status === IDLE && loss.inBatch) toSkipping(client, outcome.failure)
}

/** Queues the messages that a server received and did not run, ahead of later ones. */
function recall(client: PooledClient): void {
  client.pending.unshift(...client.sent.unanswered())
  client.translator.restart()
  stopKeeping(client)
  client.requests.restart()
}

/** Repeats the messages lost with a compute on the next one. If that is the same compute, they fail. */
function repeat(client: PooledClient, { computeId, fatal }: Loss): void {
  const { stream, pool, waiter } = client
  stream.pause()
  const giveUp = pool.waitForNew({
    applicationName: () => waiter.applicationName(),
    onServer(server) {
      if (server.computeId !== computeId) return beginPending(client, server)
      server.takeBack()
      failPending(client, fatal ?? UNKNOWN_OUTCOME)
    },
    onError: (error) => failWaiting(client, error),
  })
  toWaiting(client, giveUp)
}
