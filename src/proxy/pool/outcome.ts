import { type StatementFailure, ROLLED_BACK, UNKNOWN_OUTCOME } from './aborted.ts'
import type { Loss } from './borrower.ts'
import { MESSAGE_HEAD } from '../wire/messages.ts'
import { BIND, COPY_DONE, EXECUTE, FAILED, FUNCTION_CALL, IDLE, IN_BLOCK, PARSE, QUERY } from '../wire/message_types.ts'
import type { SentMessage } from './sent.ts'
import { endsRequest } from './session_reset.ts'
import { type TransactionCommand, transactionCommands } from './transaction_commands.ts'

/** The texts of a client's prepared statements. */
export interface PreparedTexts {
  /** The text of a prepared statement. The name of the unnamed statement is ''. */
  textOf(name: string): string | undefined
  /** Whether backslashes escape in plain strings. */
  hasEscapes(): boolean
}

/** A request without a complete response. */
export interface LostRequest {
  /** The transaction status of Postgres after the request: idle, or failed. */
  readonly status: number
  /** Whether it only ends an open transaction by ROLLBACK. */
  readonly isRollback: boolean
  readonly messages: readonly SentMessage[]
}

export interface LostOutcome {
  /** The error that each of the requests gets. */
  readonly failure: StatementFailure
  /** The lost requests that were sent to their end; fewer if not all of their messages were kept. */
  readonly requests: readonly LostRequest[]
  /** The transaction status at the end, after a request that has only begun as well. */
  readonly status: number
}

type Command = TransactionCommand | 'unknown'

interface Request {
  readonly messages: SentMessage[]
  readonly commands: Command[]
}

/**
 * The outcome of a client's requests after the loss of its server connection. They are certainly rolled back if no
 * statement of them runs outside of a transaction block and no statement commits a block. If a block would be open at
 * the end, its status is failed, so that no statement that was meant for it runs outside of it.
 * @param sent all messages since the last ReadyForQuery after which no response was pending, as far as they are known
 */
export function outcomeOf(
  { fatal, status, unanswered }: Loss,
  sent: readonly SentMessage[] | undefined,
  texts: PreparedTexts,
): LostOutcome {
  // The error of a shutdown (57P…) is not the response to a request.
  const own = fatal && !fatal.code.startsWith('57P') ? fatal : undefined
  const inBlock = status === IDLE ? IDLE : FAILED
  if (!sent) return { failure: own ?? UNKNOWN_OUTCOME, requests: [], status: inBlock }
  const lost = unanswered.filter(({ kind }) => kind === 'query' || kind === 'sync').length
  const { complete, open } = requestsOf(sent, texts)
  let state: State = { status, mayCommit: false }
  const requests = complete.slice(Math.max(0, complete.length - lost)).map(({ messages, commands }) => {
    const isAlone = commands.length === 1
    const isRollback = isAlone && commands[0] === 'rollback' && state.status !== IDLE
    state = commands.reduce(run, state)
    // A BEGIN that fails begins no transaction.
    const isBlock = state.status !== IDLE && !(isAlone && commands[0] === 'begin')
    return { status: isBlock ? FAILED : IDLE, isRollback, messages }
  })
  const last = requests.at(-1)?.status
  state = open.commands.reduce(run, state)
  const mayCommit = state.mayCommit || requests.length < lost
  const failure = own ?? (mayCommit ? UNKNOWN_OUTCOME : ROLLED_BACK)
  const isBlock = open.commands.length === 0 && last !== undefined ? last === FAILED : state.status !== IDLE
  return { failure, requests, status: isBlock ? FAILED : IDLE }
}

interface State {
  readonly status: number
  readonly mayCommit: boolean
}

function run({ status, mayCommit }: State, command: Command): State {
  switch (command) {
    case 'begin':
      return { status: status === IDLE ? IN_BLOCK : status, mayCommit }
    case 'commit':
    case 'commit and chain':
      return { status: command === 'commit' ? IDLE : IN_BLOCK, mayCommit: mayCommit || status !== FAILED }
    case 'rollback':
    case 'rollback and chain':
      return { status: command === 'rollback' ? IDLE : IN_BLOCK, mayCommit }
    case 'rollback to':
      return { status: status === FAILED ? IN_BLOCK : status, mayCommit }
    case 'unknown':
      return { status, mayCommit: true }
    default:
      // Outside of a block each statement commits by itself.
      return { status, mayCommit: mayCommit || status === IDLE }
  }
}

/** Splits the sent messages into requests, each with its transaction commands in order. */
function requestsOf(sent: readonly SentMessage[], texts: PreparedTexts): { complete: Request[]; open: Request } {
  const complete: Request[] = []
  const statements = new Map<string, readonly Command[]>()
  const portals = new Map<string, readonly Command[]>()
  let open: Request = { messages: [], commands: [] }
  const commandsOf = (text: string | undefined): readonly Command[] =>
    text === undefined ? ['unknown'] : transactionCommands(text, texts.hasEscapes())

  for (const message of sent) {
    const { bytes, isCut, isPart } = message
    const type = bytes[0]
    const first = textAt(bytes, MESSAGE_HEAD)
    const second = first && textAt(bytes, first.end)
    open.messages.push(message)
    if (!isPart && type === QUERY) open.commands.push(...commandsOf(isCut ? undefined : first?.text))
    else if (type === PARSE && first) statements.set(first.text, parsed(bytes, first.end, commandsOf))
    else if (type === BIND && first && second)
      portals.set(first.text, statements.get(second.text) ?? commandsOf(texts.textOf(second.text)))
    else if (!isPart && type === EXECUTE)
      open.commands.push(...(portals.get(first?.text ?? '') ?? (['unknown'] as const)))
    else if (type === FUNCTION_CALL || type === COPY_DONE) open.commands.push('other')
    if (!endsRequest(type)) continue
    complete.push(open)
    open = { messages: [], commands: [] }
  }
  return { complete, open }
}

/** A Parse holds one statement, which the beginning of its text identifies. */
function parsed(
  bytes: Buffer,
  at: number,
  commandsOf: (text: string | undefined) => readonly Command[],
): readonly Command[] {
  const whole = textAt(bytes, at)
  if (whole) return commandsOf(whole.text)
  const [command] = commandsOf(bytes.toString('latin1', at))
  return [command ?? 'unknown']
}

/** The text that begins at `at`, and the index after its zero byte. Returns undefined when the text is cut. */
function textAt(bytes: Buffer, at: number): { readonly text: string; readonly end: number } | undefined {
  const zero = bytes.indexOf(0, at)
  return zero < 0 ? undefined : { text: bytes.toString('latin1', at, zero), end: zero + 1 }
}
