import { type RequestSchema, resolved } from './shipped_contract.ts'

/** One field of a request body with one valid value, and the smallest body that contains it. */
export interface Field {
  /** Names and, in lists, indexes; empty for the whole body. */
  readonly path: readonly string[]
  /** Names of the field in refusals. */
  readonly names: readonly string[]
  readonly value: unknown
  readonly body: unknown
}

/** Valid values for a field with more constraints than its schema. `fields` must accompany the value. */
export type Known = (
  path: readonly string[],
) => readonly { readonly value: unknown; readonly fields?: object }[] | undefined

const PAST = '2026-01-01T00:00:00Z'
const FUTURE = '2099-01-01T00:00:00Z'
/** Ranges with up to this many values are tried completely. */
const FEW = 8

/** Every field of a schema at any depth, each with several valid values. */
export function fieldsOf(schema: RequestSchema, known: Known, path: readonly string[] = []): Field[] {
  const name = path.at(-1) ?? ''
  const itself = (value: unknown): Field => ({ path, names: [name], value, body: value })
  const { anyOf, items, properties = {}, required = [], additionalProperties, ...leaf } = resolved(schema)
  const fixed = known(path)
  if (fixed) return fixed.map(({ value }) => itself(value))
  if (anyOf) return anyOf.flatMap((each) => fieldsOf(each, known, path))
  if (items) {
    const inItem = fieldsOf(items, known, [...path, '0'])
    // A scalar item is named after its list.
    const named = inItem.map((each) => ({ ...each, names: each.names.map((its) => (its === '0' ? name : its)) }))
    return [itself([]), ...named.map((each) => ({ ...each, body: [each.body] }))]
  }
  if (typeof additionalProperties === 'object') {
    const [key = 'a_key', value = 'a text'] = known([...path, '*'])?.map((each) => String(each.value)) ?? []
    return [itself({}), { path: [...path, key], names: [name, key], value, body: { [key]: value } }]
  }
  if (Object.keys(properties).length === 0) return valuesOf(leaf, name).map(itself)

  const fieldsIn = (inner: string) => fieldsOf(properties[inner] ?? {}, known, [...path, inner])
  const least = Object.fromEntries(required.map((inner) => [inner, fieldsIn(inner).at(-1)?.body]))
  const inside = Object.keys(properties).flatMap((inner) =>
    fieldsIn(inner).map((field) => {
      const beside = known(field.path)?.find(({ value }) => value === field.value)?.fields
      return { ...field, body: { ...least, ...beside, [inner]: field.body } }
    }),
  )
  return required.length > 0 ? inside : [itself({}), ...inside]
}

function valuesOf({ type, format, description = '', ...limits }: RequestSchema, name: string): unknown[] {
  if (limits.enum) return [...limits.enum]
  switch (type) {
    case 'boolean':
      return [true, false]
    case 'null':
      return [null]
    case 'integer':
    case 'number':
      return numbersOf(limits)
    case 'string':
      return format === 'date-time' ? [PAST, FUTURE] : textsOf(description, limits, name)
    default:
      throw new Error(`the document says of ${name} only that it is ${type}: say here what a valid value is`)
  }
}

function numbersOf({ minimum = 0, maximum = 1_000_000 }: RequestSchema): number[] {
  if (maximum - minimum <= FEW) return Array.from({ length: maximum - minimum + 1 }, (_, more) => minimum + more)
  return [...new Set([minimum, 0, 1, 3600, maximum])].filter((each) => each >= minimum && each <= maximum)
}

let count = 0

/** The values that the description lists, in place of an `enum`; otherwise texts, one of the maximum length. */
function textsOf(description: string, { maxLength }: RequestSchema, name: string): string[] {
  const listed = [...description.matchAll(/^\s*\* `?([\w-]+)`?/gm)].map(([, value = '']) => value)
  if (listed.length > 0) return listed
  const text = `a_${name}_${++count}`
  return maxLength === undefined ? [text] : [text, text.padEnd(maxLength, 'x')]
}
