/*
 * Parameters of a query as JSON gives them, in the texts that Postgres reads. Numbers keep every digit that was sent: where one may have lost
 * some, the JSON is read again with the source of each number kept.
 */

type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown

const { parse, rawJSON } = JSON as unknown as {
  parse: (text: string, reviver: Reviver) => unknown
  /** A number as it was written, for JSON.stringify (ECMAScript proposal "JSON.parse source text access"). */
  rawJSON: (text: string) => object
}

/** Reads JSON in which each number is what it was in the text, digit by digit; to be given to `parameterText`. */
export const parseExactly = (text: string): unknown =>
  parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? rawJSON(source) : value,
  )

/** Whether a value holds a number that may have lost digits in being read. */
export function isInexact(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isSafeInteger(value)
  if (typeof value !== 'object' || value === null) return false
  return Object.values(value).some(isInexact)
}

/** The text of a parameter, `null` for NULL: arrays become Postgres arrays, objects and numbers stay JSON. */
export function parameterText(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'string') return value
  return Array.isArray(value) ? arrayText(value) : JSON.stringify(value)
}

/** Postgres manual, "Array Input and Output Syntax". */
const arrayText = (values: readonly unknown[]): string => `{${values.map(elementText).join(',')}}`

function elementText(value: unknown): string {
  if (Array.isArray(value)) return arrayText(value)
  const text = parameterText(value)
  return text === null ? 'NULL' : `"${text.replaceAll(/["\\]/g, '\\$&')}"`
}
