/*
 * A server connection of a pool. Only the heads of the server's messages are read: to match each response to its
 * message, and to detect when no response is pending outside of a transaction, so that another client may have the
 * connection. Its states are those of the protocol (protocol_state.ts) and of the session (session_use.ts), and
 *
 *   idle ──lend──▶ lent ──the client gives it back, or all is answered──▶ idle
 *     └──────────────┴──its end, a reset that fails, or a client that leaves it within a transaction──▶ closed
 */
import { insertWriteError } from '../session/write_errors.ts'
import { readShared, writeShared } from '../session/shared_read_buffer.ts'
import { encodeMessage, MESSAGE_HEAD } from '../wire/messages.ts'
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
} from '../wire/message_types.ts'
import type { Borrower } from './borrower.ts'
import {
  endsAnswer,
  type Expected,
  HIDDEN_QUERY,
  type Refused,
  refusedBy,
  RESET_BIND,
  RESET_EXECUTE,
  RESET_PARSE,
  RESET_SYNC,
} from './expected.ts'
import {
  beginCopyIn,
  createProtocolState,
  failBatch,
  isHidden,
  isSettled,
  type ProtocolState,
  recordReady,
  recordSent,
} from './protocol_state.ts'
import { createReader, type Reader } from '../wire/reader.ts'
import { ADMIN_SHUTDOWN } from './repeat.ts'
import type { PoolServer, PoolServerOptions } from './server_interface.ts'
import { createServerSettings, type ServerSettings } from './server_settings.ts'
import {
  clearStatements,
  createServerStatements,
  prepareStatement,
  type ServerStatements,
} from './server_statements.ts'
import { discardingTag, RESET, RESET_AND_SYNC } from './session_reset.ts'
import {
  createSessionUse,
  endReset,
  isClean,
  isFor,
  lendTo,
  markStale,
  resetIdle,
  type SessionUse,
} from './session_use.ts'
import type { PooledStatement } from './statements.ts'

interface Server extends PoolServer {
  readonly options: PoolServerOptions
  readonly reader: Reader
  readonly reported: ServerSettings
  readonly protocol: ProtocolState
  readonly use: SessionUse
  readonly statements: ServerStatements
  /** The number of Syncs sent. */
  batch: number
  /** The client to which it is lent. */
  borrower: Borrower | undefined
  /** The borrower has received bytes. */
  hasForwarded: boolean
  /** The bytes read last held a ReadyForQuery. */
  isReady: boolean
  /** Bytes to be written ahead of the next ones. */
  ahead: Buffer | undefined
  fatal: Refused | undefined
  /** Cancel requests under way. */
  cancelRequests: number
}

export function createPoolServer(options: PoolServerOptions): PoolServer {
  const { socket } = options
  const reported = createServerSettings(options.parameters)
  const protocol = createProtocolState()
  const { unanswered } = protocol
  const use = createSessionUse()
  const statements = createServerStatements()
  const server: Server = {
    options,
    reader: createReader(
      (type, bytes, at, end) => examine(server, type, bytes, at, end),
      (bytes) => forward(server, bytes),
      () => close(server),
    ),
    reported,
    protocol,
    use,
    statements,
    batch: 0,
    borrower: undefined,
    hasForwarded: false,
    isReady: false,
    ahead: undefined,
    fatal: undefined,
    cancelRequests: 0,
    computeId: options.computeId,
    idleSince: 0,
    unnamed: undefined,
    parameters: () => reported.active(),
    settings: () => reported.key(),
    mustReport: () => reported.mustReport(),
    isSettled: () => isSettled(protocol),
    isInBatch: () => protocol.batch !== 'synced',
    hasFailed: () => protocol.status === FAILED,
    isAnswered: () => unanswered.length === 0,
    isSending: () => socket.writableLength > 0,
    needsDrain: () => socket.writableNeedDrain,
    isClean: () => isClean(use),
    isFor: (client) => isFor(use, client),
    isResetting: () => use.phase === 'resetting',
    lend: (to) => lend(server, to),
    reset: () => reset(server),
    takeBack: () => takeBack(server),
    expect: (entry) => expect(server, entry),
    has: (statement) => statements.prepared.has(statement),
    isNaming: (name) => unanswered.all().some((entry) => entry.name === name),
    prepare: (statement, name) => prepare(server, statement, name),
    send: (bytes) => send(server, bytes),
    run: (statement, onAnswer) => run(server, statement, onAnswer),
    cancel: () => cancel(server),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close() {
      server.borrower = undefined
      close(server)
    },
  }
  readShared(socket, (chunk) => read(server, chunk))
  socket.on('drain', () => server.borrower?.drained())
  const onEnd = (): void => close(server)
  socket.once('end', onEnd).once('close', onEnd)
  socket.resume()
  return server
}

function read(server: Server, chunk: Buffer): void {
  const { options, reader, protocol } = server
  // The response to a reset is no activity of the compute.
  if (server.borrower) options.onBytes()
  server.isReady = false
  reader.read(chunk)
  if (!server.isReady || protocol.unanswered.length > 0) return
  if (isSettled(protocol)) settle(server)
  else if (server.borrower) server.borrower.answered()
  else close(server)
}

function forward(server: Server, bytes: Buffer): void {
  const { borrower, options } = server
  server.hasForwarded = true
  if (borrower && !borrower.receive(bytes)) options.socket.pause()
}

/** Records a message of the server. Returns whether the client gets it. */
function examine(server: Server, type: number, bytes: Buffer, at: number, end: number): boolean {
  const { protocol } = server
  switch (type) {
    case DATA_ROW:
    case COPY_DATA:
    case NOTICE:
      return !isHidden(protocol)
    case NOTIFICATION:
      return false
    case PARAMETER_STATUS:
      return reportParameter(server, bytes.toString('latin1', at + MESSAGE_HEAD, end - 1))
    case ERROR_RESPONSE:
      return fail(server, bytes.subarray(at + MESSAGE_HEAD, end))
    case READY_FOR_QUERY:
      return becomeReady(server, bytes[at + MESSAGE_HEAD] ?? IDLE)
    case COPY_IN:
      if (beginCopyIn(protocol) && !server.borrower) close(server)
      return true
    default:
      return answer(server, type, type === COMMAND_COMPLETE ? discardingTag(bytes, at + MESSAGE_HEAD, end) : '')
  }
}

/** @param tag of a command that discards statements, or empty */
function answer(server: Server, type: number, tag: string): boolean {
  const { protocol, borrower } = server
  const head = protocol.unanswered.head()
  const passes = head?.hidden !== true
  if (passes && (tag === 'DEALLOCATE ALL' || tag === 'DISCARD ALL')) forgetStatements(server)
  if (passes && tag === 'DISCARD ALL') borrower?.discarded()
  if (!head || !endsAnswer(type, head.kind)) return passes
  protocol.unanswered.shift()
  if (type === COMMAND_COMPLETE) protocol.syncInCopy = false
  head.onDone?.()
  insertOwnAnswers(server)
  if (head === RESET_EXECUTE) {
    endReset(server.use)
    server.borrower?.onReset()
  }
  return passes
}

/** Forgets all statements except those whose Parse is pending. */
function forgetStatements({ statements: { prepared, uncertain }, protocol, borrower }: Server): void {
  prepared.clear()
  uncertain.clear()
  for (const { kind, statement, instead } of protocol.unanswered.all())
    if (kind === 'parse' && statement && !instead) prepared.add(statement)
  borrower?.deallocated()
}

/** Sends the pooler's own responses that are next in order. */
function insertOwnAnswers({ protocol: { unanswered }, reader }: Server): void {
  for (let head = unanswered.head(); head?.instead || head?.kind === 'copy_end'; head = unanswered.head()) {
    unanswered.shift()
    if (head.instead) reader.insert(head.instead)
  }
}

function reportParameter(server: Server, text: string): boolean {
  const { reported, protocol, borrower } = server
  const [name = '', value = ''] = text.split('\0')
  if (!reported.report(name, value)) {
    close(server)
    return false
  }
  if (isHidden(protocol)) return false
  borrower?.parameter(name, value)
  return true
}

function fail(server: Server, body: Buffer): boolean {
  const { protocol, use } = server
  const refused = refusedBy(body)
  if (refused.severity === 'FATAL' || refused.severity === 'PANIC') {
    server.fatal = refused
    return false
  }
  if (use.phase === 'resetting') {
    close(server, true)
    return false
  }
  if (protocol.syncInCopy) {
    close(server)
    return false
  }
  if (refused.code === '0A000') markStale(use)
  const hidden = isHidden(protocol)
  const dropped = failBatch(protocol, refused)
  // Undo the last message first.
  for (const entry of dropped.toReversed()) unprepare(server, entry, entry === dropped[0])
  if (hidden && dropped.length === 0) return false
  return !insertWriteError(server.reader, server.options.writesRefused(), body)
}

/** Undoes the records of a message at which the server failed, or which it skips. */
function unprepare({ statements: { prepared }, borrower }: Server, entry: Expected, hasFailed = false): void {
  const { kind, statement, instead, name, onDropped } = entry
  onDropped?.(hasFailed)
  if (!statement) return
  if (kind === 'close') return void prepared.add(statement)
  if (!instead) prepared.delete(statement)
  if (name !== undefined) borrower?.unprepared(statement, name)
}

function becomeReady(server: Server, status: number): boolean {
  const { protocol, reported } = server
  if (protocol.unanswered.length === 0) {
    // Out of step: the next answer could reach another client.
    close(server)
    return false
  }
  server.isReady = true
  reported.ready(protocol.unanswered.head() === RESET_SYNC)
  const head = recordReady(protocol, status)
  insertOwnAnswers(server)
  return head?.hidden !== true
}

/** Tells the client, or the pool if no client has the connection, that all is answered. */
function settle(server: Server): void {
  if (server.borrower) server.borrower.settled()
  else becomeIdle(server)
}

function becomeIdle(server: Server): void {
  if (server.use.phase !== 'closed' && server.cancelRequests === 0) server.options.onIdle(server)
}

function lend(server: Server, to: Borrower): void {
  const mustReset = lendTo(server.use, to)
  server.borrower = to
  server.hasForwarded = false
  if (!mustReset) return
  expectReset(server)
  server.ahead = RESET
}

function reset(server: Server): void {
  resetIdle(server.use)
  expectReset(server)
  server.protocol.unanswered.push(RESET_SYNC)
  server.options.socket.write(RESET_AND_SYNC)
}

/** Records that a reset is about to be written. */
function expectReset(server: Server): void {
  const { statements, reported, protocol } = server
  clearStatements(statements)
  server.unnamed = undefined
  reported.expectReset()
  for (const entry of [RESET_PARSE, RESET_BIND, RESET_EXECUTE]) protocol.unanswered.push(entry)
}

function takeBack(server: Server): void {
  const { protocol, options } = server
  server.borrower = undefined
  if (options.socket.isPaused()) options.socket.resume()
  if (isSettled(protocol)) becomeIdle(server)
  // The server waits for bytes that no client will send.
  else if (protocol.batch !== 'synced' || protocol.copyIn || protocol.unanswered.length === 0) close(server)
}

function expect(server: Server, entry: Expected): void {
  if (entry.kind === 'sync') server.batch++
  const recorded = recordSent(server.protocol, entry)
  if (recorded === 'skipped') unprepare(server, entry)
  else if (recorded === 'answered' && entry.instead) server.reader.insert(entry.instead)
}

function prepare(server: Server, statement: PooledStatement, name: string | undefined): Buffer[] {
  const { statements, protocol, batch } = server
  const { bytes, expected } = prepareStatement(statements, statement, {
    name,
    batch,
    evicts: protocol.batch !== 'failed',
  })
  for (const entry of expected) expect(server, entry)
  return [...bytes]
}

function send(server: Server, bytes: Buffer): void {
  const { ahead, options } = server
  writeShared(options.socket, ahead ? Buffer.concat([ahead, bytes]) : bytes)
  server.ahead = undefined
}

function run(server: Server, statement: string, onAnswer?: (refused: Refused | undefined) => void): void {
  server.unnamed = undefined
  server.protocol.unanswered.push(onAnswer ? { kind: 'query', hidden: true, onAnswer } : HIDDEN_QUERY)
  const message = encodeMessage(QUERY, Buffer.from(`${statement}\0`, 'latin1'))
  // Ahead of the client's bytes, in the same write as the reset.
  if (server.ahead) server.ahead = Buffer.concat([server.ahead, message])
  else server.options.socket.write(message)
}

async function cancel(server: Server): Promise<void> {
  if (server.use.phase === 'closed') return
  server.cancelRequests++
  await server.options.cancel()
  server.cancelRequests--
  if (!server.borrower && isSettled(server.protocol)) becomeIdle(server)
}

/** @param hasResetFailed the server has refused a reset: then it skips the client's messages behind it */
function close(server: Server, hasResetFailed = false): void {
  const { options, use, protocol, reader, borrower, fatal } = server
  if (use.phase === 'closed') return
  const neverRan = use.phase === 'resetting' && (hasResetFailed || fatal?.code === ADMIN_SHUTDOWN)
  use.phase = 'closed'
  server.borrower = undefined
  options.socket.destroy()
  options.onClosed(server)
  borrower?.lost({
    fatal,
    computeId: options.computeId,
    answered: server.hasForwarded,
    neverRan,
    midMessage: reader.isMidMessage(),
    inBatch: protocol.batch !== 'synced',
    status: protocol.status,
    unanswered: protocol.unanswered.all().filter((entry) => !entry.hidden),
  })
}
