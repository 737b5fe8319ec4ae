import { encodeMessage, MESSAGE_HEAD } from '../wire/messages.ts'
import { CLOSE, PARSE } from '../wire/message_types.ts'

/** A prepared statement as all servers of a pool know it, independent of the clients' names for it. */
export interface PooledStatement {
  /** Its name at the servers. */
  readonly name: Buffer
  /** The Parse that creates it there. */
  readonly parse: Buffer
  /** The beginning of its text. */
  readonly text: string
}

/** Bytes of a text that are kept to recognize the kind of statement. */
const TEXT_BYTES = 64

/** The statements of a pool's clients. Statements with the same text and types share one name. */
export interface Statements {
  /**
   * @param definition the part of a Parse after the name: text and types. The caller returns the statement by
   *   `release`.
   */
  intern(definition: Buffer): PooledStatement
  release(statement: PooledStatement): void
}

export function createStatements(): Statements {
  const known = new Map<string, { statement: PooledStatement; users: number }>()
  const keys = new Map<PooledStatement, string>()
  let count = 0

  return {
    intern(definition) {
      const key = definition.toString('latin1')
      const entry = known.get(key)
      if (entry) {
        entry.users++
        return entry.statement
      }
      const name = Buffer.from(`neap_${++count}\0`)
      const text = definition.toString('latin1', 0, Math.min(TEXT_BYTES, definition.indexOf(0)))
      const statement = { name, parse: encodeMessage(PARSE, name, definition), text }
      known.set(key, { statement, users: 1 })
      keys.set(statement, key)
      return statement
    },
    release(statement) {
      const key = keys.get(statement)
      const entry = key === undefined ? undefined : known.get(key)
      if (key === undefined || !entry || --entry.users > 0) return
      known.delete(key)
      keys.delete(statement)
    },
  }
}

/** Text and types of a statement. */
export const definitionOf = ({ name, parse }: PooledStatement): Buffer => parse.subarray(MESSAGE_HEAD + name.length)

/**
 * Whether text and types are the same. A statement that all clients released and one prepared again are different
 * objects with the same definition.
 */
export const isSame = (one: PooledStatement, other: PooledStatement): boolean =>
  one === other || definitionOf(one).equals(definitionOf(other))

/** The Close of a statement at a server. */
export const encodeClose = ({ name }: PooledStatement): Buffer => encodeMessage(CLOSE, Buffer.from('S'), name)
