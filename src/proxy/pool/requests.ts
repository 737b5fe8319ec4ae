/*
 * What a pooled client sends, as its servers are to get it. Only heads are read, but where a statement is named: its clients' names are not
 * those of the servers, which are asked to prepare what they do not have yet just before it is used.
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
  TERMINATE,
} from './protocol.ts'
import { mayBeRefused, refusal } from './refusal.ts'
import type { Borrower, PoolServer } from './server.ts'
import type { Statement, Statements } from './statements.ts'

/** As in Postgres. */
const LONGEST = 2 ** 30
/** Of what has to be read whole: the text of a statement with a name, and names. */
const LONGEST_WHOLE = 16 * 2 ** 20
/** An unnamed statement that is longer is not brought along to another server. */
const LONGEST_UNNAMED = 65_536

const NONE = Buffer.alloc(0)
const PARSED = encodeMessage(PARSE_COMPLETE)
const CLOSED = encodeMessage(CLOSE_COMPLETE)

const ASKED = {
  query: { kind: 'query' },
  parse: { kind: 'parse' },
  hiddenParse: { kind: 'parse', hidden: true },
  bind: { kind: 'bind' },
  describe: { kind: 'describe' },
  execute: { kind: 'execute' },
  close: { kind: 'close' },
  closed: { kind: 'close', instead: CLOSED },
  sync: { kind: 'sync' },
  copyEnd: { kind: 'copy_end' },
} as const satisfies Record<string, Expected>

export interface Requests {
  /** Sends a server what came of the client. Answers whether the client has said goodbye. Errors: malformed, unpoolable. */
  forward(server: PoolServer, bytes: Buffer): boolean
  /**
   * Cuts what came into whole messages and the beginning of one, for a client that has no server. What is left of a message whose beginning
   * a lost server got, and data for a COPY that is over, is dropped. Errors: malformed.
   */
  cut(bytes: Buffer): { readonly messages: Buffer[]; readonly tail: Buffer }
  /** Whether a server has been sent the beginning of a message only. */
  isMidMessage(): boolean
  /** The type of a message that has begun, of which no server has been sent anything. */
  begun(): number | undefined
  /** How the text begins of a statement that the client has prepared. */
  textOf(name: string): string | undefined
  /** A Parse has failed. */
  forget(statement: Statement): void
  /** Begins anew with the message whose first byte comes next. */
  restart(): void
  /** Gives back all statements. */
  close(): void
}

export function createRequests(statements: Statements, borrower: Borrower): Requests {
  const names = new Map<string, Statement>()
  /** The Parse of the unnamed statement. */
  let unnamed: Buffer | undefined
  /** The beginning of a message that is not yet to be told from others, and how much there must be to go on. */
  let rest: Buffer[] = []
  let restLength = 0
  let needed = 0
  /** How much is to come of a message that needs no look. */
  let passing = 0

  function take(bytes: Buffer): Buffer | undefined {
    if (restLength === 0) return bytes
    rest.push(bytes)
    restLength += bytes.length
    if (restLength < needed) return undefined
    restLength = 0
    return Buffer.concat(rest)
  }

  function keep(bytes: Buffer, need: number): void {
    if (need > LONGEST_WHOLE)
      throw new ProxyError('unpoolable', { text: 'a prepared statement of more than 16 MB is not supported' })
    rest = [Buffer.from(bytes)]
    restLength = bytes.length
    needed = Math.max(need, bytes.length + 1)
  }

  const nameAt = (bytes: Buffer, from: number, end: number): string => bytes.toString('latin1', from, end - 1)

  function lengthAt(bytes: Buffer, at: number): number {
    const length = bytes.readInt32BE(at + 1)
    if (length < 4 || length > LONGEST) throw new ProxyError('malformed', { text: 'invalid message length' })
    return 1 + length
  }

  function setName(name: string, statement: Statement): void {
    const before = names.get(name)
    names.set(name, statement)
    if (before) statements.release(before)
  }

  function forward(server: PoolServer, chunk: Buffer): boolean {
    const bytes = take(chunk)
    if (!bytes) return false
    const pieces: Buffer[] = []
    let from = 0
    let at = Math.min(passing, bytes.length)
    passing -= at
    /** Puts something in the place of what lies between `at` and `end`. */
    const replace = (end: number, ...by: Buffer[]): void => {
      if (at > from) pieces.push(bytes.subarray(from, at))
      pieces.push(...by)
      from = end
    }
    let goodbye = false
    while (!goodbye && bytes.length - at >= MESSAGE_HEAD) {
      const type = bytes[at] ?? 0
      const end = at + lengthAt(bytes, at)
      const isWhole = end <= bytes.length
      const body = at + MESSAGE_HEAD
      if (type === TERMINATE) {
        replace(bytes.length)
        goodbye = true
        at = bytes.length
        break
      }
      if (type === QUERY) {
        if (mayBeRefused(bytes, body)) {
          if (!isWhole) break
          const by = refusal(nameAt(bytes, body, end))
          if (by !== undefined) replace(end, encodeMessage(QUERY, Buffer.from(`${by}\0`)))
        }
        unnamed = undefined
        server.unnamedOf = undefined
        server.expect(ASKED.query)
      } else if (type === PARSE) {
        const text = endOfName(bytes, body, end)
        if (text === 0) break
        const isNamed = text > body + 1
        if (!isWhole && (isNamed || mayBeRefused(bytes, text))) break
        const by = mayBeRefused(bytes, text) ? refusal(nameAt(bytes, text, bytes.indexOf(0, text) + 1)) : undefined
        const definition = by === undefined ? bytes.subarray(text, end) : Buffer.from(`${by}\0\0\0`)
        if (isNamed) parseNamed(server, nameAt(bytes, body, text), definition, (...made) => replace(end, ...made))
        else {
          server.unnamedOf = borrower
          server.expect(ASKED.parse)
          if (by !== undefined) replace(end, encodeMessage(PARSE, Buffer.from([0]), definition))
          unnamed =
            isWhole && definition.length < LONGEST_UNNAMED
              ? encodeMessage(PARSE, Buffer.from([0]), definition)
              : undefined
        }
      } else if (type === BIND) {
        const name = endOfName(bytes, body, end)
        const values = name === 0 ? 0 : endOfName(bytes, name, end)
        if (values === 0) break
        const statement = names.get(nameAt(bytes, name, values))
        if (values === name + 1) bringUnnamed(server, replace, at)
        else if (statement) {
          const length = end - at - 1 + statement.name.length - (values - name)
          const made = server.prepare(statement, true)
          replace(values, ...made, BIND_BYTE, int32(length), bytes.subarray(body, name), statement.name)
        }
        server.expect(ASKED.bind)
      } else if (type === DESCRIBE || type === CLOSE) {
        if (!isWhole) break
        const isStatement = bytes[body] === OF_STATEMENT
        const name = nameAt(bytes, body + 1, end)
        const statement = isStatement ? names.get(name) : undefined
        if (type === DESCRIBE) {
          if (isStatement && name === '') bringUnnamed(server, replace, at)
          else if (statement) {
            const made = server.prepare(statement, true)
            replace(end, ...made, encodeMessage(DESCRIBE, bytes.subarray(body, body + 1), statement.name))
          }
          server.expect(ASKED.describe)
        } else if (isStatement && name !== '') {
          if (statement) {
            names.delete(name)
            statements.release(statement)
          }
          server.expect(ASKED.closed)
          replace(end)
        } else {
          if (isStatement) unnamed = undefined
          server.expect(ASKED.close)
        }
      } else if (type === EXECUTE) server.expect(ASKED.execute)
      else if (type === SYNC) server.expect(ASKED.sync)
      else if (type === FUNCTION_CALL) server.expect(ASKED.query)
      else if (type === COPY_DONE || type === COPY_FAIL) server.expect(ASKED.copyEnd)
      else if (type !== COPY_DATA && type !== FLUSH)
        throw new ProxyError('malformed', { text: `invalid frontend message type ${type}` })
      at = end
    }
    if (at > bytes.length) {
      passing = at - bytes.length
      at = bytes.length
    } else if (at < bytes.length) {
      const left = bytes.subarray(at)
      keep(left, left.length < MESSAGE_HEAD ? MESSAGE_HEAD : wholeOrMore(left))
    }
    if (at > from) pieces.push(bytes.subarray(from, at))
    if (pieces.length > 0) server.send(pieces)
    return goodbye
  }

  /** What must have come of a message to go on with it: all of it, or of a Bind, whose values may be long, a bit more than there was. */
  function wholeOrMore(left: Buffer): number {
    return left[0] === BIND ? Math.min(lengthAt(left, 0), left.length * 2) : lengthAt(left, 0)
  }

  function parseNamed(
    server: PoolServer,
    name: string,
    definition: Buffer,
    replaceBy: (...made: Buffer[]) => void,
  ): void {
    const statement = statements.intern(definition)
    setName(name, statement)
    if (server.has(statement)) {
      server.expect({ kind: 'parse', statement, instead: PARSED })
      replaceBy()
    } else replaceBy(...server.prepare(statement, false))
  }

  /** Gives a server the client's unnamed statement, if it has that of another, or none. */
  function bringUnnamed(server: PoolServer, replace: (end: number, ...by: Buffer[]) => void, at: number): void {
    if (server.unnamedOf === borrower || !unnamed) return
    server.unnamedOf = borrower
    server.expect(ASKED.hiddenParse)
    replace(at, unnamed)
  }

  return {
    forward,
    cut(chunk) {
      const bytes = restLength > 0 ? Buffer.concat([...rest, chunk]) : chunk
      restLength = 0
      const messages: Buffer[] = []
      let at = Math.min(passing, bytes.length)
      passing -= at
      while (bytes.length - at >= MESSAGE_HEAD) {
        const end = at + lengthAt(bytes, at)
        const type = bytes[at]
        if (end > bytes.length && type === COPY_DATA) {
          passing = end - bytes.length
          return { messages, tail: NONE }
        }
        if (end > bytes.length) break
        if (type !== COPY_DATA && type !== COPY_DONE && type !== COPY_FAIL) messages.push(bytes.subarray(at, end))
        at = end
      }
      return { messages, tail: bytes.subarray(at) }
    },
    isMidMessage: () => passing > 0,
    begun: () => (restLength > 0 ? rest[0]?.[0] : undefined),
    textOf: (name) => names.get(name)?.text,
    forget(statement) {
      for (const [name, known] of names) {
        if (known !== statement) continue
        names.delete(name)
        statements.release(statement)
        return
      }
    },
    restart() {
      passing = 0
      restLength = 0
    },
    close() {
      for (const statement of names.values()) statements.release(statement)
      names.clear()
      unnamed = NONE
    },
  }
}

const BIND_BYTE = Buffer.of(BIND)

/** Where a name that begins at `at` is over: the index after its zero byte; 0 while that has not come. Errors: malformed. */
function endOfName(bytes: Buffer, at: number, end: number): number {
  const found = bytes.indexOf(0, at) + 1
  if (found > end || (found === 0 && end <= bytes.length))
    throw new ProxyError('malformed', { text: 'invalid string in message' })
  return found
}
