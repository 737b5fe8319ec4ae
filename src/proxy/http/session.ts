/*
 * One session of the extended protocol (Postgres manual, "Message Flow"), spoken to the proxy's own `serve` as any client would:
 *
 *   opening ──ReadyForQuery──▶ ready ──run──▶ running ──ReadyForQuery──▶ ready
 *      any of them ──error outside a query, end of the stream, answer too large, abandon──▶ gone
 *
 * It is written here, not done by a driver, since a driver keeps a whole answer however large it is, waits for each statement of a batch before
 * it sends the next, and takes what a connection string leaves open from the environment of the process.
 */
import { type Duplex, duplexPair } from 'node:stream'
import { type ConnectionContext, serve } from '../connection.ts'
import { ClientGone } from '../errors.ts'
import {
  BACKEND_KEY_DATA,
  encodeMessage,
  ERROR_RESPONSE,
  int32,
  MESSAGE_HEAD,
  type Message,
  messageAt,
  PASSWORD_MESSAGE,
  READY_FOR_QUERY,
} from '../messages.ts'
import { CANCEL_REQUEST, encodeStartup, PROTOCOL_3_0 } from '../startup.ts'
import type { Login } from './connection_string.ts'
import { PostgresError, Refusal } from './refusal.ts'
import { type Field, parseFields, rowEncoder, type RowFormat } from './rows.ts'

/** Of what a request is answered with: the values of all rows. */
export const MOST_ANSWER_BYTES = 10 * 2 ** 20

export interface Statement extends RowFormat {
  readonly text: string
  /** NULL is `null`. */
  readonly parameters: readonly (string | null)[]
}

export interface Result {
  fields: Field[]
  /** Each row as JSON. */
  readonly rows: string[]
  /** As Postgres names what was done, such as `INSERT 0 1`. */
  tag: string
}

export interface SqlSession {
  /** Whether it can take statements, and whether it is in a transaction then. */
  state(): 'ready' | 'in_transaction' | 'busy' | 'gone'
  /**
   * Runs statements one after the other, all sent at once; the first error ends it, and undoes what was not committed.
   * Errors: PostgresError; Refusal (the answer is too large, it was COPY, the session broke off); ClientGone when abandoned.
   */
  run(statements: readonly Statement[]): Promise<Result[]>
  /** Cancels what is under way, and ends. */
  abandon(): void
  /** Calls the listener when it is gone. */
  onGone(listener: () => void): void
}

const [PARSE, BIND, DESCRIBE, EXECUTE, SYNC] = [0x50, 0x42, 0x44, 0x45, 0x53] as const
const [ROW_DESCRIPTION, DATA_ROW, COMMAND_COMPLETE, EMPTY_QUERY] = [0x54, 0x44, 0x43, 0x49] as const
/** CopyInResponse, CopyOutResponse, CopyBothResponse. */
const COPY = [0x47, 0x48, 0x57]
/** What may be told at any time: NoticeResponse, ParameterStatus, NotificationResponse. */
const ASIDE = [0x4e, 0x53, 0x41]
/** In ReadyForQuery. */
const IN_NO_TRANSACTION = 0x49

/** Somebody who asks. */
export interface Who extends Login {
  readonly address: string | undefined
}

/**
 * Logs in and waits until the compute is there.
 * @param signal gives up
 * Errors: PostgresError, in the words of the proxy or the compute; Refusal; ClientGone.
 */
export async function openSession(
  context: ConnectionContext,
  { address, serverName, parameters, password }: Who,
  signal: AbortSignal,
): Promise<SqlSession> {
  const stream = streamTo(context, address, serverName)
  const session = conversation(stream, (key) => cancel(context, address, key))
  const latin1 = new Map([...parameters].map(([name, value]) => [name, Buffer.from(value).toString('latin1')]))
  const startup = encodeStartup({ version: PROTOCOL_3_0, parameters: latin1 })
  const gone = (): void => session.abandon()
  signal.addEventListener('abort', gone)
  try {
    if (signal.aborted) gone()
    stream.write(Buffer.concat([startup, encodeMessage(PASSWORD_MESSAGE, text(password))]))
    await session.answered
  } finally {
    signal.removeEventListener('abort', gone)
  }
  return session
}

/** A client of the proxy, inside it. */
function streamTo(context: ConnectionContext, address: string | undefined, serverName: string | undefined): Duplex {
  const [near, far] = duplexPair()
  for (const [one, other] of [
    [near, far],
    [far, near],
  ] as const) {
    one.on('error', () => {})
    one.once('close', () => other.destroy())
  }
  void serve(context, { stream: far, address, serverName, shows: 'password', binding: undefined })
  return near
}

/** Sends a CancelRequest and waits until it was dealt with. */
async function cancel(context: ConnectionContext, address: string | undefined, key: Buffer): Promise<void> {
  const stream = streamTo(context, address, undefined)
  stream.write(Buffer.concat([int32(8 + key.length), int32(CANCEL_REQUEST), key]))
  await new Promise((resolve) => {
    stream.once('close', resolve).once('end', () => stream.destroy())
    stream.resume()
  })
}

/** What waits for the next ReadyForQuery. */
interface Waiting {
  readonly statements: readonly Statement[]
  readonly results: Result[]
  bytes: number
  heard: boolean
  error: Error | undefined
  readonly resolve: (results: Result[]) => void
  readonly reject: (error: Error) => void
}

function conversation(
  stream: Duplex,
  cancelBy: (key: Buffer) => Promise<void>,
): SqlSession & { readonly answered: Promise<unknown> } {
  let waiting: Waiting | undefined
  let key: Buffer | undefined
  let inTransaction = false
  let current: Result = noResult()
  let encodeRow: ((body: Buffer) => string) | undefined
  let gone: Error | undefined
  let onGone = (): void => {}

  function wait(statements: readonly Statement[]): Promise<Result[]> {
    return new Promise((resolve, reject) => {
      waiting = { statements, results: [], bytes: 0, heard: false, error: undefined, resolve, reject }
      current = noResult()
    })
  }

  /** Ends, and tells whoever waits why. What its compute is doing just then is cancelled. */
  function leave(error: Error): void {
    if (gone) return
    gone = error
    const running = waiting
    waiting = undefined
    stream.off('data', read).pause()
    if (running && key && !stream.readableEnded) void cancelAndClose(key)
    else stream.destroy()
    running?.reject(error)
    onGone()
  }

  async function cancelAndClose(keyOfSession: Buffer): Promise<void> {
    await cancelBy(keyOfSession)
    // Not before: until then the proxy must know the key.
    stream.destroy()
  }

  let chunks: Buffer[] = []
  let have = 0
  let need = MESSAGE_HEAD

  function read(chunk: Buffer): void {
    chunks.push(chunk)
    have += chunk.length
    if (have < need) return
    const bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks)
    let at = 0
    while (!gone) {
      const message = messageAt(bytes, at, MOST_ANSWER_BYTES)
      if (message === 'invalid') return leave(tooLarge())
      if (!message) break
      at += MESSAGE_HEAD + message.body.length
      hear(message)
    }
    const rest = bytes.subarray(at)
    chunks = rest.length > 0 ? [rest] : []
    have = rest.length
    need = have < MESSAGE_HEAD ? MESSAGE_HEAD : 1 + rest.readInt32BE(1)
  }

  function hear({ type, body }: Message): void {
    if (type === BACKEND_KEY_DATA) key = Buffer.from(body)
    if (!waiting) {
      if (type === ERROR_RESPONSE) leave(new PostgresError(body, true))
      return
    }
    if (type === READY_FOR_QUERY) return ready(body)
    if (type === ERROR_RESPONSE) waiting.error = new PostgresError(body, !waiting.heard)
    else if (COPY.includes(type)) leave(noCopy())
    else result(waiting, type, body)
    waiting.heard ||= !ASIDE.includes(type)
  }

  function result(running: Waiting, type: number, body: Buffer): void {
    const statement = running.statements[running.results.length]
    if (!statement) return
    if (type === ROW_DESCRIPTION) {
      current.fields = parseFields(body)
      encodeRow = rowEncoder(current.fields, statement)
    } else if (type === DATA_ROW && encodeRow) {
      running.bytes += body.length
      if (running.bytes > MOST_ANSWER_BYTES) leave(tooLarge())
      else current.rows.push(encodeRow(body))
    } else if (type === COMMAND_COMPLETE || type === EMPTY_QUERY) {
      current.tag = type === EMPTY_QUERY ? '' : body.toString('utf8', 0, body.length - 1)
      running.results.push(current)
      current = noResult()
      encodeRow = undefined
    }
  }

  function ready(body: Buffer): void {
    inTransaction = body.readUInt8(0) !== IN_NO_TRANSACTION
    const answered = waiting
    waiting = undefined
    if (answered?.error) answered.reject(answered.error)
    else answered?.resolve(answered.results)
  }

  const ended = (): void => leave(waiting?.error ?? new Refusal(500, 'The connection to the compute broke off.'))
  stream.on('data', read).on('end', ended).on('close', ended)
  const answered = wait([])
  return {
    answered,
    state: () => (gone ? 'gone' : waiting ? 'busy' : inTransaction ? 'in_transaction' : 'ready'),
    run(statements) {
      if (gone) return Promise.reject(gone)
      const results = wait(statements)
      stream.write(Buffer.concat([...statements.flatMap(encodeStatement), encodeMessage(SYNC)]))
      return results
    },
    abandon: () => leave(new ClientGone('gone before it was answered')),
    onGone(listener) {
      onGone = listener
    },
  }
}

const noResult = (): Result => ({ fields: [], rows: [], tag: '' })

/** Parse, Bind, Describe and Execute, all of the unnamed statement and portal. */
function encodeStatement({ text: query, parameters }: Statement): Buffer[] {
  const values = parameters.flatMap((value) => {
    if (value === null) return [int32(-1)]
    const bytes = Buffer.from(value)
    return [int32(bytes.length), bytes]
  })
  return [
    encodeMessage(PARSE, NAMELESS, text(query), int16(0)),
    encodeMessage(BIND, NAMELESS, NAMELESS, int16(0), int16(parameters.length), ...values, int16(0)),
    encodeMessage(DESCRIBE, Buffer.from('P'), NAMELESS),
    encodeMessage(EXECUTE, NAMELESS, int32(0)),
  ]
}

const NAMELESS = Buffer.from([0])
const text = (value: string): Buffer => Buffer.from(`${value}\0`)
const int16 = (value: number): Buffer => Buffer.from([value >> 8, value & 0xff])

const tooLarge = (): Refusal =>
  new Refusal(507, `The answer has more than ${MOST_ANSWER_BYTES} bytes: ask for fewer rows, or connect by WebSocket.`)
const noCopy = (): Refusal =>
  new Refusal(400, 'COPY from STDIN or to STDOUT is not possible over HTTP: connect by WebSocket, or as psql does.', {
    code: '0A000',
  })
