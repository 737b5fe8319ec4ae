/*
 * The transaction of a client whose server is gone. As after any other error (Postgres manual, "Extended Query", "ROLLBACK") each statement
 * fails until the client ends the transaction, so that nothing of it is taken for done; then it goes on, at another server.
 */
import { encodeFields, encodeMessage, MESSAGE_HEAD } from '../messages.ts'
import {
  BIND,
  BIND_COMPLETE,
  CLOSE,
  CLOSE_COMPLETE,
  COMMAND_COMPLETE,
  DESCRIBE,
  EXECUTE,
  FAILED,
  FUNCTION_CALL,
  IDLE,
  NO_DATA,
  PARSE,
  PARSE_COMPLETE,
  QUERY,
  READY_FOR_QUERY,
  SYNC,
} from '../message_types.ts'

/** An error of one statement, which the connection outlives. */
export interface Failure {
  readonly code: string
  readonly text: string
  readonly hint?: string | undefined
  readonly detail?: string | undefined
}

export const UNKNOWN_OUTCOME: Failure = {
  code: '40003',
  text: 'the session at the compute was ended while this ran',
  hint: 'Whether it took effect is not known. The connection goes on: look, and try again.',
}
export const ROLLED_BACK: Failure = {
  code: '40001',
  text: 'the session at the compute was ended, and this transaction rolled back',
  hint: 'The connection goes on: roll back, and begin the transaction again.',
}

export const encodeFailure = ({ code, text, detail, hint }: Failure): Buffer =>
  encodeFields('ERROR', code, text, detail, hint)

export const encodeReady = (status: number): Buffer => encodeMessage(READY_FOR_QUERY, Buffer.of(status))

export interface Aborted {
  /** Answers one whole message. */
  answer(message: Buffer): Buffer
  /** The client has ended the transaction, and knows. */
  isOver(): boolean
}

/** Texts of statements that end a transaction. */
export const ENDS = /^\s*(rollback|abort|commit|end)\b(?!\s+(work\s+|transaction\s+)?to\b)/i

/** Whoever asks to keep what is lost has to hear of it, once: ROLLBACK in answer to COMMIT is no error, and goes unnoticed. */
const KEEPS = /^\s*(commit|end)\b/i

const DONE = Buffer.concat([encodeMessage(COMMAND_COMPLETE, Buffer.from('ROLLBACK\0'))])

/**
 * @param why told once; then what Postgres says in a transaction that has failed
 * @param inBatch an error was told of in a batch of the extended protocol that goes on
 * @param textOf how the text begins of a statement that the client has prepared
 */
export function abortedTransaction(
  why: Failure | undefined,
  inBatch: boolean,
  textOf: (name: string) => string | undefined,
): Aborted {
  let tell = why
  let ended = false
  let skipping = inBatch
  /** The text of the unnamed statement, and of the one bound last. */
  let unnamed = ''
  let bound = ''

  function fail(): Buffer {
    const failure = tell ?? {
      code: '25P02',
      text: 'current transaction is aborted, commands ignored until end of transaction block',
    }
    tell = undefined
    return encodeFailure(failure)
  }

  const text = (message: Buffer, at: number): string => message.toString('latin1', at, message.indexOf(0, at))
  const ready = (): Buffer => encodeReady(ended ? IDLE : FAILED)

  const isFine = (statement: string): boolean => ENDS.test(statement) && !(tell !== undefined && KEEPS.test(statement))

  /** The extended protocol: an error, and then nothing until Sync. */
  function step(answer: Buffer, isEnd: boolean): Buffer {
    if (isEnd) return answer
    skipping = true
    return fail()
  }

  return {
    answer(message) {
      const type = message[0]
      if (type === SYNC) {
        skipping = false
        return ready()
      }
      if (skipping) return Buffer.alloc(0)
      switch (type) {
        case QUERY:
        case FUNCTION_CALL: {
          const statement = type === QUERY ? text(message, MESSAGE_HEAD) : ''
          ended = ENDS.test(statement)
          return Buffer.concat([isFine(statement) ? DONE : fail(), ready()])
        }
        case PARSE: {
          const name = text(message, MESSAGE_HEAD)
          const parsed = text(message, MESSAGE_HEAD + name.length + 1)
          if (name === '') unnamed = parsed
          return step(encodeMessage(PARSE_COMPLETE), name === '' && ENDS.test(parsed))
        }
        case BIND: {
          const name = text(message, message.indexOf(0, MESSAGE_HEAD) + 1)
          bound = name === '' ? unnamed : (textOf(name) ?? '')
          return step(encodeMessage(BIND_COMPLETE), ENDS.test(bound))
        }
        case DESCRIBE:
          return step(encodeMessage(NO_DATA), ENDS.test(bound))
        case EXECUTE:
          ended = ENDS.test(bound)
          return step(DONE, isFine(bound))
        case CLOSE:
          return encodeMessage(CLOSE_COMPLETE)
        default:
          return Buffer.alloc(0)
      }
    },
    isOver: () => ended && !skipping,
  }
}
