import { errorFields } from '../wire/messages.ts'

/** The fields of a Postgres error, in the body of a refused request beside the message; null for absent ones. */
export type RefusalFields = Readonly<Record<string, string>>

/** A refused request. The message is for the client. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  /** The HTTP status (RFC 9110, section 15). */
  readonly status: number
  readonly fields: RefusalFields

  constructor(status: number, message: string, fields: RefusalFields = {}) {
    super(message)
    this.status = status
    this.fields = fields
  }
}

/** Names of the error fields in the body, by their letters (Postgres manual, "Error and Notice Message Fields"). */
const FIELDS = {
  C: 'code',
  D: 'detail',
  H: 'hint',
  P: 'position',
  p: 'internalPosition',
  q: 'internalQuery',
  V: 'severity',
  W: 'where',
  t: 'table',
  c: 'column',
  s: 'schema',
  d: 'dataType',
  n: 'constraint',
  F: 'file',
  L: 'line',
  R: 'routine',
} as const

/** An error that Postgres or the proxy has sent over the protocol. */
export class PostgresError extends Error {
  override readonly name = 'PostgresError'
  readonly code: string
  readonly fields: RefusalFields
  /** No other message of the response came before it: the request has not run. */
  readonly cameFirst: boolean

  /** @param body of an ErrorResponse */
  constructor(body: Buffer, cameFirst: boolean) {
    const sent = errorFields(body)
    super(sent.get('M') ?? '')
    this.code = sent.get('C') ?? ''
    this.cameFirst = cameFirst
    this.fields = Object.fromEntries(
      Object.entries(FIELDS).flatMap(([letter, name]) => {
        const value = sent.get(letter)
        return value === undefined ? [] : [[name, value]]
      }),
    )
  }
}

const NO_FIELDS = Object.fromEntries(Object.values(FIELDS).map((name) => [name, null]))

/** The body of the response to a refused request. */
export const refusalBody = ({ message, fields }: Pick<Refusal, 'message' | 'fields'>): string =>
  JSON.stringify({ message, ...NO_FIELDS, ...fields })
