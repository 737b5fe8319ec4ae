/*
 * The transaction of a client after the loss of its server connection. As after any other error (Postgres manual,
 * "Extended Query", "ROLLBACK") each statement fails until the client ends the transaction, so that the client takes no
 * part of it as committed. Then the client continues on another server connection.
 */
import { encodeFields, encodeMessage, MESSAGE_HEAD } from '../wire/messages.ts'
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
  OF_STATEMENT,
  PARAMETER_DESCRIPTION,
  PARSE,
  PARSE_COMPLETE,
  QUERY,
  READY_FOR_QUERY,
  SYNC,
} from '../wire/message_types.ts'
import { type TransactionCommand, transactionCommands } from './transaction_commands.ts'

/** A statement-level error: the connection stays open. */
export interface StatementFailure {
  readonly code: string
  readonly text: string
  readonly hint?: string | undefined
  readonly detail?: string | undefined
}

export const UNKNOWN_OUTCOME: StatementFailure = {
  code: '40003',
  text: 'the session at the compute was ended while this ran',
  hint: 'Whether it took effect is not known. The connection goes on: look, and try again.',
}
export const ROLLED_BACK: StatementFailure = {
  code: '40001',
  text: 'the session at the compute was ended, and this transaction rolled back',
  hint: 'The connection goes on: roll back, and begin the transaction again.',
}

const FAILED_TRANSACTION: StatementFailure = {
  code: '25P02',
  text: 'current transaction is aborted, commands ignored until end of transaction block',
}

export const encodeFailure = ({ code, text, detail, hint }: StatementFailure): Buffer =>
  encodeFields('ERROR', code, text, detail, hint)

export const encodeReady = (status: number): Buffer => encodeMessage(READY_FOR_QUERY, Buffer.of(status))

export interface Aborted {
  /** Answers one whole message. Returns undefined if a server must run it, because the transaction ends before it. */
  answer(message: Buffer): Buffer | undefined
  /** Whether the client has ended the transaction and has got the response to that. */
  isOver(): boolean
}

/** The statements that a client has prepared, by the client's names. */
export interface PreparedNames {
  /** The text of a statement. The name of the unnamed statement is ''. */
  textOf(name: string): string | undefined
  /** Records that the client has prepared a statement of this text and types. Returns false if the name is taken. */
  declare(name: string, definition: Buffer): boolean
}

const NO_PARAMETERS_NO_DATA = Buffer.concat([
  encodeMessage(PARAMETER_DESCRIPTION, Buffer.of(0, 0)),
  encodeMessage(NO_DATA),
])
const DONE = Buffer.concat([encodeMessage(COMMAND_COMPLETE, Buffer.from('ROLLBACK\0'))])

/**
 * @param why sent once; later statements get the error of Postgres for a failed transaction
 * @param inBatch whether the current batch of the extended protocol has got its error and is skipped up to its Sync
 */
export function abortedTransaction(why: StatementFailure | undefined, inBatch: boolean, names: PreparedNames): Aborted {
  let unsent = why
  let ended = false
  let skipping = inBatch
  /** Transaction commands of the unnamed statement, and of the statement bound last. */
  let unnamed = transactionCommands(names.textOf('') ?? '')
  let bound: readonly TransactionCommand[] = []

  function fail(failure = unsent ?? FAILED_TRANSACTION): Buffer {
    unsent = undefined
    return encodeFailure(failure)
  }

  const text = (message: Buffer, at: number): string => message.toString('latin1', at, message.indexOf(0, at))
  const ready = (): Buffer => encodeReady(ended ? IDLE : FAILED)

  /**
   * Whether the command succeeds. COMMIT fails until the client has got the error once: clients overlook ROLLBACK in
   * response to COMMIT, which is no error.
   */
  const succeeds = ([command]: readonly TransactionCommand[]): boolean =>
    command === 'rollback' || (command === 'commit' && unsent === undefined)

  function query(commands: readonly TransactionCommand[]): Buffer | undefined {
    const isAlone = commands.length === 1
    // A server runs the text outside of any transaction, where ROLLBACK does no harm.
    if (commands[0] === 'rollback' && !isAlone) return undefined
    ended = endsBlock(commands)
    if (isAlone && succeeds(commands)) return Buffer.concat([DONE, ready()])
    return Buffer.concat([ended ? fail(unsent ?? ROLLED_BACK) : fail(), ready()])
  }

  /** In the extended protocol, messages after an error are skipped up to Sync. */
  function step(answer: Buffer, isEnd: boolean): Buffer {
    if (isEnd) return answer
    skipping = true
    return fail()
  }

  const prepared = (name: string): readonly TransactionCommand[] =>
    name === '' ? unnamed : transactionCommands(names.textOf(name) ?? '')

  function parse(message: Buffer): Buffer {
    const name = text(message, MESSAGE_HEAD)
    const at = MESSAGE_HEAD + name.length + 1
    const commands = transactionCommands(text(message, at))
    if (name === '') unnamed = commands
    const isEnd = endsBlock(commands) && (name === '' || names.declare(name, message.subarray(at)))
    return step(encodeMessage(PARSE_COMPLETE), isEnd)
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
          return query(transactionCommands(text(message, MESSAGE_HEAD)))
        case FUNCTION_CALL:
          return query(['other'])
        case PARSE:
          return parse(message)
        case BIND:
          bound = prepared(text(message, message.indexOf(0, MESSAGE_HEAD) + 1))
          return step(encodeMessage(BIND_COMPLETE), endsBlock(bound))
        case DESCRIBE:
          if (message[MESSAGE_HEAD] !== OF_STATEMENT) return step(encodeMessage(NO_DATA), endsBlock(bound))
          return step(NO_PARAMETERS_NO_DATA, endsBlock(prepared(text(message, MESSAGE_HEAD + 1))))
        case EXECUTE:
          ended = endsBlock(bound)
          return step(DONE, succeeds(bound))
        case CLOSE:
          return encodeMessage(CLOSE_COMPLETE)
        default:
          return Buffer.alloc(0)
      }
    },
    isOver: () => ended && !skipping,
  }
}

/** Whether the first command of a text ends the transaction and the text leaves no other transaction open. */
function endsBlock(commands: readonly TransactionCommand[]): boolean {
  if (commands[0] !== 'commit' && commands[0] !== 'rollback') return false
  const last = commands.findLast((command) => command !== 'other')
  return last === 'commit' || last === 'rollback'
}
