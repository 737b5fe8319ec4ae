/*
 * A server connection of a pool. Only the heads of the server's messages are read: to match each response to its
 * message, and to detect when no response is pending outside of a transaction, so that another client may have the
 * connection.
 *
 *   clean ──lend──▶ lent ──all answered, no transaction──▶ used ──lend, same client──▶ lent
 *     ▲                ▲                                     ├──lend, another client: reset ahead of its bytes──▶ lent
 *     └────────────────┼──────────reset, nothing lent────────┘
 *                      └─ a reset that fails closes the session: the client's bytes behind it have not run
 */
import { readBorrowed, writeBorrowed } from '../borrowed.ts'
import { encodeMessage, errorFields, MESSAGE_HEAD } from '../messages.ts'
import type { Borrower } from './borrower.ts'
import {
  createExpectedQueue,
  endsAnswer,
  type Expected,
  HIDDEN_QUERY,
  type Refused,
  RESET_BIND,
  RESET_EXECUTE,
  RESET_PARSE,
  RESET_SYNC,
} from './expected.ts'
import {
  COMMAND_COMPLETE,
  COPY_DATA,
  COPY_IN,
  DATA_ROW,
  ERROR_RESPONSE,
  FAILED,
  IDLE,
  NOTICE,
  NOTIFICATION,
  PARAMETER_STATUS,
  QUERY,
  READY_FOR_QUERY,
} from '../message_types.ts'
import { createReader } from './reader.ts'
import { ADMIN_SHUTDOWN } from './repeat.ts'
import { discardingTag, RESET, RESET_AND_SYNC } from './session_reset.ts'
import { createServerSettings } from './server_settings.ts'
import type { PoolServer, PoolServerOptions } from './server_interface.ts'
import { encodeClose, type PooledStatement } from './statements.ts'

/** Limit of statements that one server keeps prepared; the least recently used is closed first. */
const MAX_STATEMENTS = 500

/** Severity, SQLSTATE and text of an ErrorResponse. */
export const refusedBy = (body: Buffer): Refused & { readonly severity: string } => {
  const fields = errorFields(body)
  return { severity: fields.get('V') ?? '', code: fields.get('C') ?? '', text: fields.get('M') ?? '' }
}

export function createPoolServer(options: PoolServerOptions): PoolServer {
  const { socket, onBytes, onIdle, onClosed } = options
  const settings = createServerSettings(options.parameters)
  const unanswered = createExpectedQueue()
  const prepared = new Set<PooledStatement>()
  let borrower: Borrower | undefined
  let status = IDLE
  /** The last message of the extended protocol that was sent is no Sync. */
  let inBatch = false
  /** Between an error and the next Sync the server skips messages. */
  let skipping = false
  let copyIn = false
  let answered = false
  /** The client that has used the connection since it was clean. */
  let user: Borrower | undefined
  /** A prepared statement no longer fits its table and must be prepared again. */
  let isStale = false
  let resetting = false
  let resetFailed = false
  /** Bytes to be written ahead of the next ones. */
  let ahead: Buffer | undefined
  let fatal: Refused | undefined
  /** The error of a hidden message. */
  let refused: Refused | undefined
  let closed = false
  let cancelling = 0
  /** The bytes read last held a ReadyForQuery. */
  let isReady = false

  const isSettled = (): boolean => unanswered.length === 0 && !inBatch && status === IDLE

  const reader = createReader(look, pass, over)

  function read(chunk: Buffer): void {
    // The response to a reset is no activity of the compute.
    if (borrower) onBytes()
    isReady = false
    reader.read(chunk)
    if (!isReady || unanswered.length > 0) return
    if (isSettled()) settle()
    else if (borrower) borrower.answered()
    else over()
  }

  function pass(bytes: Buffer): void {
    answered = true
    if (borrower && !borrower.receive(bytes)) socket.pause()
  }

  /** Records a message. Returns whether the client gets it. */
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
        return answer(type, type === COMMAND_COMPLETE ? discardingTag(bytes, at + MESSAGE_HEAD, end) : '')
    }
  }

  const hidden = (): boolean => unanswered.head()?.hidden === true

  function answer(type: number, tag: string): boolean {
    const head = unanswered.head()
    const passes = head?.hidden !== true
    if (passes && (tag === 'DEALLOCATE ALL' || tag === 'DISCARD ALL')) forgetAll()
    if (passes && tag === 'DISCARD ALL') borrower?.discarded()
    if (head && endsAnswer(type, head.kind)) {
      unanswered.shift()
      head.onDone?.()
      passInstead()
      if (head === RESET_EXECUTE) {
        resetting = false
        borrower?.onReset()
      }
    }
    return passes
  }

  /** Forgets all statements except those whose Parse is pending. */
  function forgetAll(): void {
    prepared.clear()
    for (const { kind, statement, instead } of unanswered.all())
      if (kind === 'parse' && statement && !instead) prepared.add(statement)
    borrower?.deallocated()
  }

  /** Sends the pooler's own responses that are next in order. */
  function passInstead(): void {
    for (let head = unanswered.head(); head?.instead || head?.kind === 'copy_end'; head = unanswered.head()) {
      unanswered.shift()
      if (head.instead) reader.insert(head.instead)
    }
  }

  function parameter(text: string): boolean {
    const [name = '', value = ''] = text.split('\0')
    settings.report(name, value)
    if (hidden()) return false
    borrower?.parameter(name, value)
    return true
  }

  function failed(body: Buffer): boolean {
    const said = refusedBy(body)
    if (said.severity === 'FATAL' || said.severity === 'PANIC') {
      fatal = said
      return false
    }
    if (resetting) {
      resetFailed = true
      over()
      return false
    }
    copyIn = false
    const head = unanswered.head()
    if (head?.hidden) refused = said
    if (said.code === '0A000') isStale = true
    if (!head || head.kind === 'query' || head.kind === 'sync') return !hidden()
    skipping = true
    // Undo the last message first.
    for (const entry of unanswered.dropToSync().toReversed()) unprepare(entry, entry === head)
    if (unanswered.length > 0) skipping = false
    // During a COPY the server has ignored the batch's Sync: it skips messages until another one.
    else inBatch = true
    return true
  }

  /** Undoes the records of a message at which the server failed, or which it skipped. */
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
    settings.ready(head === RESET_SYNC)
    head?.onAnswer?.(refused)
    head?.onDone?.()
    refused = undefined
    passInstead()
    return head?.hidden !== true
  }

  /** Tells the client, or the pool if no client has the connection, that all is answered. */
  function settle(): void {
    if (borrower) borrower.settled()
    else rested()
  }

  function rested(): void {
    if (!closed && cancelling === 0) onIdle(server)
  }

  /** Records that a reset is about to be written. */
  function expectReset(): void {
    resetting = true
    isStale = false
    prepared.clear()
    server.unnamed = undefined
    settings.expectReset()
    for (const entry of [RESET_PARSE, RESET_BIND, RESET_EXECUTE]) unanswered.push(entry)
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
      computeId: options.computeId,
      answered,
      unrun: resetting && (resetFailed || fatal?.code === ADMIN_SHUTDOWN),
      midMessage: reader.isMidMessage(),
      inBatch,
      status,
      unanswered: unanswered.all().filter((entry) => !entry.hidden),
    })
  }

  const server: PoolServer = {
    computeId: options.computeId,
    parameters: () => settings.active(),
    settings: () => settings.key(),
    idleSince: 0,
    unnamed: undefined,
    isSettled,
    isInBatch: () => inBatch,
    hasFailed: () => status === FAILED,
    isAnswered: () => unanswered.length === 0,
    isSending: () => socket.writableLength > 0,
    needsDrain: () => socket.writableNeedDrain,
    isClean: () => user === undefined && !isStale,
    isFor: (client) => !isStale && (user === undefined || user === client),
    lend(to) {
      const isFor = server.isFor(to)
      borrower = to
      user = to
      answered = false
      if (isFor) return
      expectReset()
      ahead = RESET
    },
    mustReport: () => settings.mustReport(),
    isResetting: () => resetting,
    reset() {
      user = undefined
      expectReset()
      unanswered.push(RESET_SYNC)
      socket.write(RESET_AND_SYNC)
    },
    takeBack() {
      borrower = undefined
      if (socket.isPaused()) socket.resume()
      if (isSettled()) rested()
      // The server waits for bytes that no client will send.
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
      // A server ignores Sync while it reads COPY data.
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
        // A Set keeps the order of insertion: the statement used last moves to the end.
        prepared.delete(statement)
        prepared.add(statement)
        return []
      }
      const pieces: Buffer[] = []
      for (const oldest of prepared) {
        // A server that skips messages would skip the Close as well.
        if (prepared.size < MAX_STATEMENTS || skipping) break
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
    send(bytes) {
      writeBorrowed(socket, ahead ? Buffer.concat([ahead, bytes]) : bytes)
      ahead = undefined
    },
    run(statement, onAnswer) {
      server.unnamed = undefined
      unanswered.push(onAnswer ? { kind: 'query', hidden: true, onAnswer } : HIDDEN_QUERY)
      const message = encodeMessage(QUERY, Buffer.from(`${statement}\0`, 'latin1'))
      // Ahead of the client's bytes, in the same write as the reset.
      if (ahead) ahead = Buffer.concat([ahead, message])
      else socket.write(message)
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
