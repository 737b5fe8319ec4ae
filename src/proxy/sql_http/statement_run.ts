import {
  COMMAND_COMPLETE,
  COPY_BOTH,
  COPY_IN,
  COPY_OUT,
  DATA_ROW,
  EMPTY_QUERY,
  ERROR_RESPONSE,
  NOTICE,
  NOTIFICATION,
  PARAMETER_STATUS,
  ROW_DESCRIPTION,
} from '../wire/message_types.ts'
import { MESSAGE_HEAD, type Message } from '../wire/messages.ts'
import { PostgresError, Refusal } from './refusal.ts'
import { parseFields, rowEncoder } from './rows.ts'
import type { HttpStatement, Result } from './statement.ts'

/** Limit of the row messages in the answer to a request, and also of the messages that describe the rows. */
export const MAX_ANSWER_BYTES = 10 * 2 ** 20

const COPY: readonly number[] = [COPY_IN, COPY_OUT, COPY_BOTH]
/** Messages that may come at any time. */
const ASIDE: readonly number[] = [NOTICE, PARAMETER_STATUS, NOTIFICATION]

/** A run of statements, until the next ReadyForQuery. */
export interface StatementRun {
  readonly statements: readonly HttpStatement[]
  readonly results: Result[]
  /** The result of the current statement. */
  current: Result
  encodeRow: ((body: Buffer) => string) | undefined
  bytes: number
  describedBytes: number
  heard: boolean
  error: Error | undefined
  readonly resolve: (results: Result[]) => void
  readonly reject: (error: Error) => void
}

export const newRun = (
  statements: readonly HttpStatement[],
  resolve: (results: Result[]) => void,
  reject: (error: Error) => void,
): StatementRun => ({
  statements,
  results: [],
  current: noResult(),
  encodeRow: undefined,
  bytes: 0,
  describedBytes: 0,
  heard: false,
  error: undefined,
  resolve,
  reject,
})

/** Takes a message of the run. Returns the refusal that ends the session, if the message calls for one. */
export function takeMessage(run: StatementRun, { type, body }: Message): Refusal | undefined {
  let refusal: Refusal | undefined
  if (type === ERROR_RESPONSE) run.error = new PostgresError(body, !run.heard)
  else if (COPY.includes(type)) refusal = noCopy()
  else refusal = takeResult(run, type, body)
  run.heard ||= !ASIDE.includes(type)
  return refusal
}

function takeResult(run: StatementRun, type: number, body: Buffer): Refusal | undefined {
  const statement = run.statements[run.results.length]
  if (!statement) return undefined
  if (type === ROW_DESCRIPTION) {
    run.describedBytes += MESSAGE_HEAD + body.length
    if (run.describedBytes > MAX_ANSWER_BYTES) return tooLarge()
    run.current.fields = parseFields(body)
    run.encodeRow = rowEncoder(run.current.fields, statement)
  } else if (type === DATA_ROW && run.encodeRow) {
    run.bytes += MESSAGE_HEAD + body.length
    if (run.bytes > MAX_ANSWER_BYTES) return tooLarge()
    run.current.rows.push(run.encodeRow(body))
  } else if (type === COMMAND_COMPLETE || type === EMPTY_QUERY) {
    run.current.tag = type === EMPTY_QUERY ? '' : body.toString('utf8', 0, body.length - 1)
    run.results.push(run.current)
    run.current = noResult()
    run.encodeRow = undefined
  }
  return undefined
}

const noResult = (): Result => ({ fields: [], rows: [], tag: '' })

export const tooLarge = (): Refusal =>
  new Refusal(507, `The answer has more than ${MAX_ANSWER_BYTES} bytes: ask for fewer rows, or connect by WebSocket.`)
const noCopy = (): Refusal =>
  new Refusal(400, 'COPY from STDIN or to STDOUT is not possible over HTTP: connect by WebSocket, or as psql does.', {
    code: '0A000',
  })
