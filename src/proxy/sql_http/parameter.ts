/*
 * Converts the JSON parameters of a query to the texts that Postgres reads. Numbers keep all digits: if one may have
 * lost digits, the JSON is parsed again with the source text of each number.
 */

type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown

const { parse, rawJSON } = JSON as unknown as {
  parse: (text: string, reviver: Reviver) => unknown
  /** A number as it was written, for JSON.stringify (ECMAScript proposal "JSON.parse source text access"). */
  rawJSON: (text: string) => object
}

/** Parses JSON and keeps the source text of each number; the result is for `parameterText`. */
export const parseExactly = (text: string): unknown =>
  parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? rawJSON(source) : value,
  )

/** Whether a value holds a number that may have lost digits in parsing. */
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
