/*
 * Translates a pooled client's prepared statements to those of its servers. The clients' names are not the names at the
 * servers. A statement that a server does not have is prepared there just before its use, so that a client can use its
 * statements on every server connection.
 */
import { ProxyError } from '../errors.ts'
import { encodeMessage, int32, MESSAGE_HEAD } from '../messages.ts'
import type { Expected } from './expected.ts'
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
} from '../message_types.ts'
import { refusal } from './refusal.ts'
import type { Unnamed } from './borrower.ts'
import type { Replace } from './rewrite.ts'
import type { PoolServer } from './server_interface.ts'
import { definitionOf, isSame, type PooledStatement, type Statements } from './statements.ts'

/** A longer unnamed statement is not prepared again on another server. */
const LONGEST_UNNAMED = 65_536

const PARSED = encodeMessage(PARSE_COMPLETE)
const CLOSED = encodeMessage(CLOSE_COMPLETE)
const TYPE_OF_BIND = Buffer.of(BIND)
const UNNAMED = Buffer.of(0)
const CLOSE_UNNAMED = encodeMessage(CLOSE, Buffer.of(OF_STATEMENT), UNNAMED)

const ASKED = {
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
const STANDS_FAILED = /^\s*($|(rollback|abort|commit|end)\b)/i

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

export function createTranslator(statements: Statements): Translator {
  const names = new Map<string, PooledStatement>()
  /** The earlier statements of changed names, as far as the changes may be undone. */
  const before: [string, PooledStatement | undefined][] = []
  let unnamed: Unnamed = { exists: false, parse: undefined }
  /** The unnamed statement at the last `settle`. */
  let unnamedThen = unnamed

  function name(called: string, statement: PooledStatement | undefined): void {
    before.push([called, names.get(called)])
    if (statement) names.set(called, statement)
    else names.delete(called)
  }

  /** The unnamed statement according to the responses so far and the pending messages. */
  function currentUnnamed(): Unnamed {
    while (unnamed.isDropped && unnamed.was) unnamed = unnamed.was
    return unnamed
  }

  /**
   * Changes the unnamed statement. The server may fail at the change, or skip it after an error. A later batch may have
   * changed the statement again by then, so only this change is dropped, not later ones.
   */
  function changeUnnamed(kind: 'query' | 'parse' | 'close', server: PoolServer, made?: Buffer): Expected {
    const to: Unnamed = { exists: kind === 'parse', parse: made, was: currentUnnamed() }
    unnamed = to
    server.unnamed = to
    return {
      kind,
      onDone() {
        to.was = undefined
      },
      onDropped(failed) {
        if (failed) {
          to.exists = false
          to.parse = to.was = undefined
        } else to.isDropped = true
        if (server.unnamed === to) server.unnamed = undefined
      },
    }
  }

  function settle(): void {
    unnamedThen = currentUnnamed()
    if (before.length === 0) return
    for (const [, statement] of before.splice(0)) if (statement) statements.release(statement)
  }

  function query({ bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
    const by = refusal(bytes, body, end)
    if (by === 'unknown') return false
    if (by !== undefined) replace(end, encodeMessage(QUERY, by, UNNAMED))
    server.unnamed = undefined
    server.expect(currentUnnamed().exists ? changeUnnamed('query', server) : ASKED.query)
    return true
  }

  function parse({ bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
    const text = endOfName(bytes, body, end)
    const isWhole = end <= bytes.length
    const isNamed = text > body + 1
    if (text === 0 || (!isWhole && (isNamed || end - body < LONGEST_UNNAMED))) return false
    const by = refusal(bytes, text, end)
    if (by === 'unknown') return false
    const refusing = by && Buffer.concat([by, Buffer.alloc(3)])
    if (isNamed) parseNamed(nameAt(bytes, body, text), refusing ?? bytes.subarray(text, end), end, server, replace)
    else {
      // After an error of its batch the server skips this Parse and keeps its unnamed statement.
      if (server.isInBatch()) bringUnnamed(server, body, replace)
      const made = refusing && encodeMessage(PARSE, UNNAMED, refusing)
      if (made) replace(end, made)
      const isKept = isWhole && end - text < LONGEST_UNNAMED
      server.expect(
        changeUnnamed(
          'parse',
          server,
          made ?? (isKept ? Buffer.from(bytes.subarray(body - MESSAGE_HEAD, end)) : undefined),
        ),
      )
    }
    return true
  }

  function parseNamed(called: string, definition: Buffer, end: number, server: PoolServer, replace: Replace): void {
    const taken = names.get(called)
    if (taken && !server.isNaming(called)) {
      // The name at the server is taken as well: the server's error says so, and has the right effect on the batch and
      // the transaction.
      const made = server.prepare(taken)
      server.expect(ASKED.parse)
      return replace(end, ...made, encodeMessage(PARSE, taken.name, definition))
    }
    const statement = statements.intern(definition)
    if (server.has(statement) && server.hasFailed() && !STANDS_FAILED.test(statement.text)) {
      // A failed transaction accepts no new statements: the server refuses this Parse.
      statements.release(statement)
      server.expect(ASKED.parse)
      return replace(end, statement.parse)
    }
    name(called, statement)
    if (server.has(statement)) {
      server.expect({ kind: 'parse', statement, name: called, instead: PARSED })
      replace(end)
    } else replace(end, ...server.prepare(statement, called))
  }

  function bind({ bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
    const called = endOfName(bytes, body, end)
    const values = called === 0 ? 0 : endOfName(bytes, called, end)
    if (values === 0) return false
    const statement = names.get(nameAt(bytes, called, values))
    if (values === called + 1) bringUnnamed(server, body, replace)
    else if (statement) {
      const length = 4 + (called - body) + statement.name.length + (end - values)
      const made = server.prepare(statement)
      replace(values, ...made, TYPE_OF_BIND, int32(length), bytes.subarray(body, called), statement.name)
    }
    server.expect(ASKED.bind)
    return true
  }

  function describe({ bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
    if (end > bytes.length) return false
    if (bytes[body] === OF_STATEMENT) {
      const called = nameAt(bytes, body + 1, end)
      const statement = names.get(called)
      if (called === '') bringUnnamed(server, body, replace)
      else if (statement) {
        const made = server.prepare(statement)
        replace(end, ...made, encodeMessage(DESCRIBE, bytes.subarray(body, body + 1), statement.name))
      }
    }
    server.expect(ASKED.describe)
    return true
  }

  function close({ bytes, body, end }: Incoming, server: PoolServer, replace: Replace): boolean {
    if (end > bytes.length) return false
    const isStatement = bytes[body] === OF_STATEMENT
    const called = nameAt(bytes, body + 1, end)
    if (isStatement && called !== '') {
      const statement = names.get(called)
      if (statement) name(called, undefined)
      server.expect({
        kind: 'close',
        instead: CLOSED,
        onDropped() {
          if (statement && !names.has(called)) name(called, statements.intern(definitionOf(statement)))
        },
      })
      replace(end)
      return true
    }
    server.expect(isStatement ? changeUnnamed('close', server) : ASKED.close)
    return true
  }

  /**
   * Prepares the client's unnamed statement on a server that has another one. Closes the server's instead if the client
   * has none, or one that is too long to be kept.
   */
  function bringUnnamed(server: PoolServer, body: number, replace: Replace): void {
    const brought = currentUnnamed()
    if (server.unnamed === brought) return
    server.unnamed = brought
    server.expect({
      kind: brought.parse ? 'parse' : 'close',
      hidden: true,
      onDropped() {
        if (server.unnamed === brought) server.unnamed = undefined
      },
    })
    replace(body - MESSAGE_HEAD, brought.parse ?? CLOSE_UNNAMED)
  }

  return {
    translate(type, message, server, replace) {
      switch (type) {
        case QUERY:
          return query(message, server, replace)
        case PARSE:
          return parse(message, server, replace)
        case BIND:
          return bind(message, server, replace)
        case DESCRIBE:
          return describe(message, server, replace)
        case CLOSE:
          return close(message, server, replace)
        case EXECUTE:
          server.expect(ASKED.execute)
          return true
        case SYNC:
          server.expect(ASKED.sync)
          return true
        case FUNCTION_CALL:
          server.expect(ASKED.query)
          return true
        case COPY_DONE:
        case COPY_FAIL:
          server.expect(ASKED.copyEnd)
          return true
        case COPY_DATA:
        case FLUSH:
          return true
        default:
          throw new ProxyError('malformed', { text: `invalid frontend message type ${type}` })
      }
    },
    textOf(called) {
      const statement = names.get(called)
      const definition =
        called === ''
          ? currentUnnamed().parse?.subarray(MESSAGE_HEAD + UNNAMED.length)
          : statement && definitionOf(statement)
      return definition?.toString('latin1', 0, definition.indexOf(0))
    },
    declare(called, definition) {
      if (names.has(called)) return false
      name(called, statements.intern(definition))
      return true
    },
    forget(statement, called) {
      const given = names.get(called)
      if (given && isSame(given, statement)) name(called, undefined)
    },
    forgetAll(server) {
      for (const called of names.keys()) if (!server.isNaming(called)) name(called, undefined)
    },
    settle,
    restart() {
      unnamed = unnamedThen
      for (const [called, statement] of before.splice(0).toReversed()) {
        const now = names.get(called)
        if (now) statements.release(now)
        if (statement) names.set(called, statement)
        else names.delete(called)
      }
    },
    close() {
      settle()
      for (const statement of names.values()) statements.release(statement)
      names.clear()
    },
  }
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
