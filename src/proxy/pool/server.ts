/*
 * A server connection of a pool. Of what the server sends only the heads are read: which question an answer is for, and when nothing is left
 * to be answered outside of a transaction, so that another client may have the server.
 *
 *   at rest ──lend──▶ lent ──all answered, no transaction──▶ settle ──nothing to clear up──▶ at rest
 *                                                              └──a hidden RESET or DISCARD──▶ at rest
 */
import type { Socket } from 'node:net'
import { readBorrowed, writeBorrowed } from '../borrowed.ts'
import { encodeMessage, errorFields, MESSAGE_HEAD } from '../messages.ts'
import type { Borrower, Unnamed } from './borrower.ts'
import { clearing } from './clearing.ts'
import { createExpectedQueue, type Expected, type Refused } from './expected.ts'
import { keyOf, type Parameters } from './parameters.ts'
import {
  BIND_COMPLETE,
  CLOSE_COMPLETE,
  COMMAND_COMPLETE,
  COPY_DATA,
  COPY_IN,
  DATA_ROW,
  EMPTY_QUERY,
  ERROR_RESPONSE,
  FAILED,
  IDLE,
  NOTICE,
  NOTIFICATION,
  NO_DATA,
  PARAMETER_STATUS,
  PARSE_COMPLETE,
  PORTAL_SUSPENDED,
  QUERY,
  READY_FOR_QUERY,
  ROW_DESCRIPTION,
} from '../message_types.ts'
import { createReader } from './reader.ts'
import { encodeClose, type Statement } from './statements.ts'

/** Statements that one server keeps prepared: who was used longest ago goes first. */
const MOST_STATEMENTS = 500

export interface PoolServer {
  readonly computePid: number | undefined
  readonly parameters: Parameters
  /** Nothing is left to be answered, outside of a transaction. */
  isSettled(): boolean
  /** It was in a transaction that has failed when it was last ready. */
  hasFailed(): boolean
  /** Bytes are on their way to it that it has not taken. */
  isSending(): boolean
  needsDrain(): boolean
  /** What those come to that follow a client, to be compared. */
  settings(): string
  /** When it came to rest, by a count of the pool's. */
  restedAt: number
  /** Which unnamed statement it has, if that is known. */
  unnamed: Unnamed | undefined
  lend(borrower: Borrower): void
  /** Takes it back; `onRest` is told when it may be lent again, which it is not if what is still under way leaves a transaction open. */
  takeBack(): void
  /** Everything is answered, be it within a transaction. */
  isAnswered(): boolean
  /** Notes a question that is about to be written, in the order of writing. */
  expect(entry: Expected): void
  /** Bytes that make it have a statement; none if it has. @param name what the client calls it, if it has asked for it just now */
  prepare(statement: Statement, name?: string): Buffer[]
  /** Whether a Parse is under way by which the client gives that name: nobody knows yet whether it will do. */
  isNaming(name: string): boolean
  has(statement: Statement): boolean
  /** @param pieces valid only until this returns */
  send(pieces: readonly Buffer[]): void
  /** Runs a statement whose answer nobody sees. */
  run(statement: string, onAnswer?: (refused: Refused | undefined) => void): void
  /** Cancels what it does. It is not lent again before that has come and gone. */
  cancel(): Promise<void>
  pause(): void
  resume(): void
  close(): void
}

export interface PoolServerOptions {
  readonly socket: Socket
  readonly computePid: number | undefined
  readonly parameters: Parameters
  /** Asks the compute to cancel what this server does; resolves when that can do no more harm, and never rejects. */
  readonly cancel: () => Promise<void>
  readonly onBytes: () => void
  readonly onRest: (server: PoolServer) => void
  readonly onClosed: (server: PoolServer) => void
}

/** What ends the answer to a question of the extended protocol. */
const ENDED_BY: ReadonlyMap<number, readonly string[]> = new Map([
  [PARSE_COMPLETE, ['parse']],
  [BIND_COMPLETE, ['bind']],
  [CLOSE_COMPLETE, ['close']],
  [ROW_DESCRIPTION, ['describe']],
  [NO_DATA, ['describe']],
  [COMMAND_COMPLETE, ['execute']],
  [EMPTY_QUERY, ['execute']],
  [PORTAL_SUSPENDED, ['execute']],
])

const HIDDEN_QUERY: Expected = { kind: 'query', hidden: true }

const [LETTER_I, LETTER_U, LETTER_S, LETTER_L] = [0x49, 0x55, 0x53, 0x4c]

/** The tag that a command completes with; none where it is INSERT, UPDATE or SELECT, which leave nothing behind and are most. */
function tagAt(bytes: Buffer, at: number, end: number): string {
  const first = bytes[at]
  if (first === LETTER_I || first === LETTER_U || (first === LETTER_S && bytes[at + 2] === LETTER_L)) return ''
  return bytes.toString('latin1', at, end - 1)
}

/** What an ErrorResponse says. */
export const refusedBy = (body: Buffer): Refused & { readonly severity: string } => {
  const fields = errorFields(body)
  return { severity: fields.get('V') ?? '', code: fields.get('C') ?? '', text: fields.get('M') ?? '' }
}

export function createPoolServer(options: PoolServerOptions): PoolServer {
  const { socket, parameters, onBytes, onRest, onClosed } = options
  const unanswered = createExpectedQueue()
  const prepared = new Set<Statement>()
  let borrower: Borrower | undefined
  let settings: string | undefined
  let status = IDLE
  /** The last of the extended protocol's messages that was sent is no Sync. */
  let inBatch = false
  /** Between an error and the next Sync the server passes over what it is asked. */
  let skipping = false
  let copyIn = false
  let answered = false
  /** What the last client left behind, and what clears it up. */
  let clears: string | undefined
  let fatal: Refused | undefined
  /** The error of a hidden question. */
  let refused: Refused | undefined
  let closed = false
  let cancelling = 0
  /** It was ready for a query within what came last. */
  let isReady = false

  const isSettled = (): boolean => unanswered.length === 0 && !inBatch && status === IDLE

  const reader = createReader(look, pass, over)

  function read(chunk: Buffer): void {
    onBytes()
    isReady = false
    reader.read(chunk)
    if (!isReady || unanswered.length > 0) return
    if (isSettled()) settle()
    else if (!borrower) over()
  }

  function pass(bytes: Buffer): void {
    answered = true
    if (borrower && !borrower.receive(bytes)) socket.pause()
  }

  /** Takes note of a message; answers whether the client gets it. */
  function look(type: number, bytes: Buffer, at: number, end: number): boolean {
    switch (type) {
      case DATA_ROW:
      case COPY_DATA:
        return !hidden()
      case NOTIFICATION:
        return false
      case NOTICE:
        return !hidden()
      case PARAMETER_STATUS:
        return parameter(bytes.toString('latin1', at + MESSAGE_HEAD, end - 1))
      case ERROR_RESPONSE:
        return failed(bytes.subarray(at + MESSAGE_HEAD, end))
      case READY_FOR_QUERY:
        return readyFor(bytes[at + MESSAGE_HEAD] ?? IDLE)
      case COPY_IN:
        copyIn = !unanswered.dropCopySyncs()
        if (copyIn && !borrower) over()
        return true
      default:
        return answer(type, type === COMMAND_COMPLETE ? tagAt(bytes, at + MESSAGE_HEAD, end) : '')
    }
  }

  const hidden = (): boolean => unanswered.head()?.hidden === true

  function answer(type: number, tag: string): boolean {
    const head = unanswered.head()
    const passes = head?.hidden !== true
    if (passes && tag !== '') {
      clears = clearing(tag, clears)
      if (tag === 'DEALLOCATE ALL' || tag === 'DISCARD ALL') forgetAll()
    }
    if (head && ENDED_BY.get(type)?.includes(head.kind)) {
      unanswered.shift()
      passInstead()
    }
    return passes
  }

  /** All but what it was asked to prepare since. */
  function forgetAll(): void {
    prepared.clear()
    for (const { kind, statement, instead } of unanswered.all())
      if (kind === 'parse' && statement && !instead) prepared.add(statement)
    borrower?.deallocated()
  }

  /** What was answered by the pooler is next in line. */
  function passInstead(): void {
    for (let head = unanswered.head(); head?.instead || head?.kind === 'copy_end'; head = unanswered.head()) {
      unanswered.shift()
      if (head.instead) reader.insert(head.instead)
    }
  }

  function parameter(text: string): boolean {
    const [name = '', value = ''] = text.split('\0')
    parameters.set(name, value)
    settings = undefined
    borrower?.parameter(name, value)
    return !hidden()
  }

  function failed(body: Buffer): boolean {
    const said = refusedBy(body)
    if (said.severity === 'FATAL' || said.severity === 'PANIC') {
      fatal = said
      return false
    }
    copyIn = false
    const head = unanswered.head()
    if (head?.hidden) refused = said
    // A plan that no longer fits its table stays so until it is made anew.
    if (said.code === '0A000') clears = clearing('PREPARE', clears)
    if (!head || head.kind === 'query' || head.kind === 'sync') return !hidden()
    skipping = true
    // What was asked last is undone first.
    for (const entry of unanswered.dropToSync().toReversed()) unprepare(entry, entry === head)
    if (unanswered.length > 0) skipping = false
    return true
  }

  /** A question that the server has failed at, or passed over. */
  function unprepare({ kind, statement, instead: made, name, onDropped }: Expected, hasFailed = false): void {
    onDropped?.(hasFailed)
    if (!statement) return
    if (kind === 'close') return void prepared.add(statement)
    if (!made) prepared.delete(statement)
    if (name !== undefined) borrower?.unprepared(statement, name)
  }

  function readyFor(now: number): boolean {
    status = now
    isReady = true
    const head = unanswered.shift()
    head?.onAnswer?.(refused)
    refused = undefined
    passInstead()
    return head?.hidden !== true
  }

  /** The client is done with it, or what cleared up after one is. */
  function settle(): void {
    if (borrower) borrower.settled()
    else rested()
  }

  function rested(): void {
    if (closed || cancelling > 0) return
    if (clears === undefined) return onRest(server)
    const statement = clears
    clears = undefined
    if (statement === 'DISCARD ALL') prepared.clear()
    server.run(statement)
  }

  function over(): void {
    if (closed) return
    closed = true
    const was = borrower
    borrower = undefined
    socket.destroy()
    onClosed(server)
    was?.lost({
      said: fatal,
      computePid: options.computePid,
      answered,
      midMessage: reader.isMidMessage(),
      status,
      unanswered: unanswered.all().filter((entry) => !entry.hidden),
    })
  }

  const server: PoolServer = {
    computePid: options.computePid,
    parameters,
    settings: () => (settings ??= keyOf(parameters)),
    restedAt: 0,
    unnamed: undefined,
    isSettled,
    hasFailed: () => status === FAILED,
    isAnswered: () => unanswered.length === 0,
    isSending: () => socket.writableLength > 0,
    needsDrain: () => socket.writableNeedDrain,
    lend(to) {
      borrower = to
      answered = false
    },
    takeBack() {
      borrower = undefined
      if (socket.isPaused()) socket.resume()
      if (isSettled()) rested()
      // What it waits for nobody sends any more.
      else if (inBatch || copyIn || unanswered.length === 0) over()
    },
    expect(entry) {
      const { kind } = entry
      if (skipping && kind !== 'sync') return unprepare(entry)
      if (kind === 'copy_end') {
        if (!copyIn && unanswered.length > 0) unanswered.push(entry)
        copyIn = false
        return
      }
      // While it takes in a COPY a server passes over a Sync.
      if (kind === 'sync' && copyIn) return
      if (kind === 'sync') skipping = inBatch = false
      else if (kind !== 'query' && !entry.instead) inBatch = true
      if (!entry.instead || unanswered.length > 0) unanswered.push(entry)
      else reader.insert(entry.instead)
    },
    has: (statement) => prepared.has(statement),
    isNaming: (name) => unanswered.all().some((entry) => entry.name === name),
    prepare(statement, name) {
      if (prepared.has(statement)) {
        // The one used last is the last in the order of insertion.
        prepared.delete(statement)
        prepared.add(statement)
        return []
      }
      const pieces: Buffer[] = []
      for (const oldest of prepared) {
        if (prepared.size < MOST_STATEMENTS) break
        prepared.delete(oldest)
        server.expect({ kind: 'close', hidden: true, statement: oldest })
        pieces.push(encodeClose(oldest))
      }
      prepared.add(statement)
      server.expect(
        name === undefined ? { kind: 'parse', hidden: true, statement } : { kind: 'parse', statement, name },
      )
      return [...pieces, statement.parse]
    },
    send(pieces) {
      const [only] = pieces
      writeBorrowed(socket, only && pieces.length === 1 ? only : Buffer.concat(pieces))
    },
    run(statement, onAnswer) {
      server.unnamed = undefined
      unanswered.push(onAnswer ? { kind: 'query', hidden: true, onAnswer } : HIDDEN_QUERY)
      socket.write(encodeMessage(QUERY, Buffer.from(`${statement}\0`, 'latin1')))
    },
    async cancel() {
      if (closed) return
      cancelling++
      await options.cancel()
      cancelling--
      if (!borrower && isSettled()) rested()
    },
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close() {
      borrower = undefined
      over()
    },
  }

  readBorrowed(socket, read)
  socket.on('drain', () => borrower?.drained())
  socket.once('end', over).once('close', over)
  socket.resume()
  return server
}
