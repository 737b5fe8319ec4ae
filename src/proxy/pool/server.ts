/*
 * A server connection of a pool. Of what the server sends only the heads are read: which question an answer is for, and when nothing is left
 * to be answered outside of a transaction, so that another client may have the server.
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

/** Statements that one server keeps prepared: who was used longest ago goes first. */
const MAX_STATEMENTS = 500

/** What an ErrorResponse says. */
export const refusedBy = (body: Buffer): Refused & { readonly severity: string } => {
  const fields = errorFields(body)
  return { severity: fields.get('V') ?? '', code: fields.get('C') ?? '', text: fields.get('M') ?? '' }
}

export function createPoolServer(options: PoolServerOptions): PoolServer {
  const { socket, onBytes, onRest, onClosed } = options
  const settings = createServerSettings(options.parameters)
  const unanswered = createExpectedQueue()
  const prepared = new Set<PooledStatement>()
  let borrower: Borrower | undefined
  let status = IDLE
  /** The last of the extended protocol's messages that was sent is no Sync. */
  let inBatch = false
  /** Between an error and the next Sync the server passes over what it is asked. */
  let skipping = false
  let copyIn = false
  let answered = false
  /** The client that has used it since it was clean. */
  let user: Borrower | undefined
  /** A prepared statement of it no longer fits its table, and will not until it is made anew. */
  let isStale = false
  let resetting = false
  let resetFailed = false
  /** To be written ahead of what is sent next. */
  let ahead: Buffer | undefined
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
    // What a reset is answered keeps no compute awake.
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
    settings.ready(head === RESET_SYNC)
    head?.onAnswer?.(refused)
    head?.onDone?.()
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
    if (!closed && cancelling === 0) onRest(server)
  }

  /** Notes that a reset is about to be written. */
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
      computePid: options.computePid,
      answered,
      unrun: resetting && (resetFailed || fatal?.code === ADMIN_SHUTDOWN),
      midMessage: reader.isMidMessage(),
      inBatch,
      status,
      unanswered: unanswered.all().filter((entry) => !entry.hidden),
    })
  }

  const server: PoolServer = {
    computePid: options.computePid,
    parameters: () => settings.active(),
    settings: () => settings.key(),
    restedAt: 0,
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
        if (prepared.size < MAX_STATEMENTS) break
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
      // Behind a reset it goes out with the client's bytes.
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
