import { BIND, DESCRIBE, EXECUTE, PARSE, SYNC } from '../wire/message_types.ts'
import { encodeMessage, int32 } from '../wire/messages.ts'
import type { Field, RowFormat } from './rows.ts'

export interface HttpStatement extends RowFormat {
  readonly text: string
  /** NULL is `null`. */
  readonly parameters: readonly (string | null)[]
}

export interface Result {
  fields: Field[]
  /** Each row as JSON. */
  readonly rows: string[]
  /** The command tag of Postgres, such as `INSERT 0 1`. */
  tag: string
}

const NAMELESS = Buffer.from([0])

/** A text of the protocol, ended by a NUL. */
export const text = (value: string): Buffer => Buffer.from(`${value}\0`)
const int16 = (value: number): Buffer => Buffer.from([value >> 8, value & 0xff])

/** Encodes statements that run in order until one fails, with one ReadyForQuery at the end. */
export const encodeStatements = (statements: readonly HttpStatement[]): Buffer =>
  Buffer.concat([...statements.flatMap(encodeStatement), encodeMessage(SYNC)])

/** Parse, Bind, Describe and Execute, all of the unnamed statement and portal. */
function encodeStatement({ text: query, parameters }: HttpStatement): Buffer[] {
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
