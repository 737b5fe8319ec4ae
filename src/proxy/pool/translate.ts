/*
 * Translates a pooled client's prepared statements to those of its servers. The clients' names are not the names at the
 * servers. A statement that a server does not have is prepared there just before its use, so that a client can use its
 * statements on every server connection.
 */
import { ProxyError } from '../wire/errors.ts'
import { encodeMessage, int32, MESSAGE_HEAD } from '../wire/messages.ts'
import { deallocatedName, freeByParse, freeByQuery, mayDeallocate } from './deallocate.ts'
import { type Expected, HIDDEN_QUERY } from './expected.ts'
import {
  BIND,
  CLOSE,
  CLOSE_COMPLETE,
  COPY_DATA,
  COPY_DONE,
  COPY_FAIL,
  DESCRIBE,
  EXECUTE,
  FLUSH,
  FUNCTION_CALL,
  OF_STATEMENT,
  PARSE,
  PARSE_COMPLETE,
  QUERY,
  SYNC,
} from '../wire/message_types.ts'
import { refusal } from './refusal.ts'
import type { Replace } from './rewrite.ts'
import type { PoolServer } from './server_interface.ts'
import { createStatementNames, type StatementNames } from './statement_names.ts'
import { definitionOf, isSame, type PooledStatement, type Statements } from './statements.ts'
import {
  changeUnnamed,
  createUnnamed,
  currentUnnamed,
  prepareUnnamed,
  restartUnnamed,
  settleUnnamed,
  UNNAMED,
  type UnnamedStatement,
} from './unnamed_statement.ts'

/** A longer unnamed statement is not prepared again on another server. */
const MAX_UNNAMED_LENGTH = 65_536

const PARSED = encodeMessage(PARSE_COMPLETE)
const CLOSED = encodeMessage(CLOSE_COMPLETE)
const TYPE_OF_BIND = Buffer.of(BIND)

const HIDDEN_PARSE: Expected = { kind: 'parse', hidden: true }

const SENT = {
  query: { kind: 'query' },
  parse: { kind: 'parse' },
  bind: { kind: 'bind' },
  describe: { kind: 'describe' },
  execute: { kind: 'execute' },
  close: { kind: 'close' },
  sync: { kind: 'sync' },
  copyEnd: { kind: 'copy_end' },
} as const satisfies Record<string, Expected>

/** Statements that may be prepared in a failed transaction: the empty one, and those that end the transaction. */
const RUNS_IN_FAILED = /^\s*($|(rollback|abort|commit|end)\b)/i

/** A message in a client's bytes, possibly incomplete. */
export interface Incoming {
  readonly bytes: Buffer
  /** Where its body begins, behind type and length. */
  readonly body: number
  /** Where the message ends: beyond `bytes` if it is incomplete. */
  readonly end: number
}

export interface Translator {
  /**
   * Records the responses that a message will get from a server, and replaces the message if the server is to get
   * another. Returns false, without effect, if more of the message must come first. Errors: malformed.
   */
  translate(type: number, message: Incoming, server: PoolServer, replace: Replace): boolean
  /**
   * The text of a statement that the client has prepared, or of the unnamed one (''). Returns undefined when the
   * statement does not exist, or is unnamed and too long to be kept.
   */
  textOf(name: string): string | undefined
  /** Records a statement that the client has prepared and no server received. Returns false if the name is taken. */
  declare(name: string, definition: Buffer): boolean
  /** Removes a name after its Parse has failed. */
  forget(statement: PooledStatement, name: string): void
  /** Removes all names after a server has forgotten all statements, except those whose Parse is pending. */
  forgetAll(server: PoolServer): void
  /** Makes the changes of names final: the messages so far will not be sent again. */
  settle(): void
  /** Undoes the changes of names since the last `settle`: their messages are sent again. */
  restart(): void
  /** Releases all statements. */
  close(): void
}

/** The statements that a client has prepared. */
interface Prepared {
  readonly statements: Statements
  readonly names: StatementNames
  readonly unnamed: UnnamedStatement
  /** The number of statements that the client has freed by SQL. */
  freed: number
}

export function createTranslator(statements: Statements): Translator {
  const names = createStatementNames(statements)
  const unnamed = createUnnamed()
  const prepared: Prepared = { statements, names, unnamed, freed: 0 }

  return {
    translate: (type, message, server, replace) => translate(prepared, type, message, server, replace),
    textOf(name) {
      const statement = names.get(name)
      const definition =
        name === ''
          ? currentUnnamed(unnamed).parse?.subarray(MESSAGE_HEAD + UNNAMED.length)
          : statement && definitionOf(statement)
      return definition?.toString('latin1', 0, definition.indexOf(0))
    },
    declare(name, definition) {
      if (names.has(name)) return false
      names.set(name, statements.intern(definition))
      return true
    },
    forget(statement, name) {
      const known = names.get(name)
      if (known && isSame(known, statement)) names.delete(name)
    },
    forgetAll(server) {
      for (const name of names.keys()) if (!server.isNaming(name)) names.delete(name)
    },
    settle() {
      settleUnnamed(unnamed)
      names.settle()
    },
    restart() {
      restartUnnamed(unnamed)
      names.restart()
    },
    close: () => names.close(),
  }
}

function translate(prepared: Prepared, type: number, message: Incoming, server: PoolServer, replace: Replace): boolean {
  switch (type) {
    case QUERY:
      return query(prepared, message, server, replace)
    case PARSE:
      return parse(prepared, message, server, replace)
    case BIND:
      return bind(prepared, message, server, replace)
    case DESCRIBE:
      return describe(prepared, message, server, replace)
    case CLOSE:
      return close(prepared, message, server, replace)
    case EXECUTE:
      server.expect(SENT.execute)
      return true
    case SYNC:
      server.expect(SENT.sync)
      return true
    case FUNCTION_CALL:
      server.expect(SENT.query)
      return true
    case COPY_DONE:
    case COPY_FAIL:
      server.expect(SENT.copyEnd)
      return true
    case COPY_DATA:
    case FLUSH:
      return true
    default:
      throw new ProxyError('malformed', { text: `invalid frontend message type ${type}` })
  }
}

function query(prepared: Prepared, { bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
  const { names, unnamed } = prepared
  const by = refusal(bytes, body, end)
  const frees = mayDeallocate(bytes, body, end)
  if (by === 'unknown' || (frees && end > bytes.length)) return false
  if (by !== undefined) replace(end, encodeMessage(QUERY, by, UNNAMED))
  server.unnamed = undefined
  const sent = currentUnnamed(unnamed).exists ? changeUnnamed(unnamed, 'query', server) : SENT.query
  const name = frees ? deallocatedName(bytes, body) : undefined
  if (name === undefined || !names.has(name)) server.expect(sent)
  else {
    replace(end, ...freeByQuery(++prepared.freed))
    server.expect(HIDDEN_QUERY)
    server.expect(freeing(prepared, name, sent))
  }
  return true
}

function parse(prepared: Prepared, { bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
  const text = endOfName(bytes, body, end)
  const isWhole = end <= bytes.length
  const isNamed = text > body + 1
  if (text === 0 || (!isWhole && (isNamed || end - body < MAX_UNNAMED_LENGTH))) return false
  const by = refusal(bytes, text, end)
  if (by === 'unknown') return false
  const refusing = by && Buffer.concat([by, Buffer.alloc(3)])
  if (isNamed) {
    parseNamed(prepared, nameAt(bytes, body, text), refusing ?? bytes.subarray(text, end), end, server, replace)
    return true
  }
  // After an error of its batch the server skips this Parse and keeps its unnamed statement. A failed transaction
  // would refuse the client's earlier one in place of this one.
  if (server.isInBatch() && !server.hasFailed()) bringUnnamed(prepared, server, body, replace)
  const name = mayDeallocate(bytes, text, end) ? deallocatedName(bytes, text) : undefined
  if (name !== undefined && prepared.names.has(name)) {
    const [empty, freed] = freeByParse(++prepared.freed)
    replace(end, empty, freed)
    server.expect(HIDDEN_PARSE)
    server.expect(freeing(prepared, name, changeUnnamed(prepared.unnamed, 'parse', server, freed)))
    return true
  }
  const replacement = refusing && encodeMessage(PARSE, UNNAMED, refusing)
  if (replacement) replace(end, replacement)
  const isKept = isWhole && end - text < MAX_UNNAMED_LENGTH
  const kept = replacement ?? (isKept ? Buffer.from(bytes.subarray(body - MESSAGE_HEAD, end)) : undefined)
  server.expect(changeUnnamed(prepared.unnamed, 'parse', server, kept))
  return true
}

function parseNamed(
  { statements, names }: Prepared,
  name: string,
  definition: Buffer,
  end: number,
  server: PoolServer,
  replace: Replace,
): void {
  const taken = names.get(name)
  if (taken && !server.isNaming(name)) {
    // The name at the server is taken as well: the server's error says so, and has the right effect on the batch and
    // the transaction.
    const made = server.prepare(taken)
    server.expect(SENT.parse)
    return replace(end, ...made, encodeMessage(PARSE, taken.name, definition))
  }
  const statement = statements.intern(definition)
  if (server.has(statement) && server.hasFailed() && !RUNS_IN_FAILED.test(statement.text)) {
    // A failed transaction accepts no new statements: the server refuses this Parse.
    statements.release(statement)
    server.expect(SENT.parse)
    return replace(end, statement.parse)
  }
  names.set(name, statement)
  if (server.has(statement)) {
    server.expect({ kind: 'parse', statement, name, instead: PARSED })
    replace(end)
  } else replace(end, ...server.prepare(statement, name))
}

function bind(prepared: Prepared, { bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
  const name = endOfName(bytes, body, end)
  const values = name === 0 ? 0 : endOfName(bytes, name, end)
  if (values === 0) return false
  const statement = prepared.names.get(nameAt(bytes, name, values))
  if (values === name + 1) bringUnnamed(prepared, server, body, replace)
  else if (statement) {
    const length = 4 + (name - body) + statement.name.length + (end - values)
    const made = server.prepare(statement)
    replace(values, ...made, TYPE_OF_BIND, int32(length), bytes.subarray(body, name), statement.name)
  }
  server.expect(SENT.bind)
  return true
}

function describe(prepared: Prepared, { bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
  if (end > bytes.length) return false
  if (bytes[body] === OF_STATEMENT) {
    const name = nameAt(bytes, body + 1, end)
    const statement = prepared.names.get(name)
    if (name === '') bringUnnamed(prepared, server, body, replace)
    else if (statement) {
      const made = server.prepare(statement)
      replace(end, ...made, encodeMessage(DESCRIBE, bytes.subarray(body, body + 1), statement.name))
    }
  }
  server.expect(SENT.describe)
  return true
}

function close(prepared: Prepared, { bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
  if (end > bytes.length) return false
  const isStatement = bytes[body] === OF_STATEMENT
  const name = nameAt(bytes, body + 1, end)
  if (!isStatement || name === '') {
    server.expect(isStatement ? changeUnnamed(prepared.unnamed, 'close', server) : SENT.close)
    return true
  }
  server.expect(freeing(prepared, name, { kind: 'close', instead: CLOSED }))
  replace(end)
  return true
}

/** Removes a name that a message frees. Returns what to expect: the name is back if the message has no effect. */
function freeing({ statements, names }: Prepared, name: string, sent: Expected): Expected {
  const statement = names.get(name)
  if (!statement) return sent
  names.delete(name)
  const restore = (): void => {
    if (!names.has(name)) names.set(name, statements.intern(definitionOf(statement)))
  }
  return {
    ...sent,
    onAnswer(refused) {
      if (refused) restore()
    },
    onDropped(failed) {
      sent.onDropped?.(failed)
      restore()
    },
  }
}

/** Prepares the client's unnamed statement before the message whose body begins at `body`. */
function bringUnnamed({ unnamed }: Prepared, server: PoolServer, body: number, replace: Replace): void {
  const made = prepareUnnamed(unnamed, server)
  if (made) replace(body - MESSAGE_HEAD, made)
}

const nameAt = (bytes: Buffer, from: number, end: number): string => bytes.toString('latin1', from, end - 1)

/**
 * The index after the zero byte of the name that begins at `at`. Returns 0 while the zero byte has not come.
 * Errors: malformed.
 */
function endOfName(bytes: Buffer, at: number, end: number): number {
  const found = bytes.indexOf(0, at) + 1
  if (found > end || (found === 0 && end <= bytes.length))
    throw new ProxyError('malformed', { text: 'invalid string in message' })
  return found
}
