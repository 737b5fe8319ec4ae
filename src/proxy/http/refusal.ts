import { errorFields } from '../messages.ts'

/** What the body of a refused request says, beside its message: the fields of a Postgres error, null where there is none. */
export type RefusalFields = Readonly<Record<string, string>>

/** A request that is answered with no. The message is for whoever made it. */
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

/** Names of the fields in the answer, by their letters (Postgres manual, "Error and Notice Message Fields"). */
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

/** An error that Postgres, or the proxy in its words, has sent. */
export class PostgresError extends Error {
  override readonly name = 'PostgresError'
  readonly code: string
  readonly fields: RefusalFields
  /** Nothing of the answer had come before it: what was asked for was not done. */
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

/** The body of an answer that says no. */
export const refusalBody = ({ message, fields }: Pick<Refusal, 'message' | 'fields'>): string =>
  JSON.stringify({ message, ...NO_FIELDS, ...fields })
