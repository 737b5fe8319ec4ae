import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import type { TLocalizedValidationError } from 'typebox/error'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { FormBody } from './bodies.ts'
import { unstorableReason } from './storable_text.ts'

/**
 * Validates requests against the schemas that type them. Path parameters, query and forms arrive as text and are
 * converted to the types of their schema. JSON bodies are not converted: a wrong type is an error that names the field.
 * A missing body counts as an empty one.
 */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const validator = Compile(schema)
  const isText = httpPart === 'querystring' || httpPart === 'params'
  // The ids in a path are text: skip their conversion.
  const staysText = httpPart === 'params' && Object.values((schema as Schema).properties ?? {}).every(takesText)
  return (given: unknown) => {
    // Bodies were checked when they were parsed.
    const unfit = isText && unstorableReason(given)
    if (unfit) return { error: new Error(`invalid request: the ${httpPart === 'params' ? 'path' : 'query'} ${unfit}`) }
    const value = staysText
      ? given
      : isText
        ? Value.Default(schema, fromText(schema, given))
        : given instanceof FormBody
          ? fromText(schema, given.fields)
          : mapFields(schema, given ?? {}, (field, each, required) =>
              each === '' && takesText(field) && !required ? undefined : each,
            )
    if (validator.Check(value)) return { value }
    const errors = validator.Errors(value)
    const [first] = errors
    const field = (first?.instancePath ?? '').split('/').filter(Boolean).join('.')
    const part = httpPart === 'params' ? 'path parameter ' : httpPart === 'body' ? '' : 'query parameter '
    const where = field === '' && httpPart === 'body' ? 'the body' : `${part}${field}`.trim()
    return { error: new Error(`invalid request: ${where} ${first ? wordsOf(first, errors) : 'is not valid'}`) }
  }
}

const TYPES: Readonly<Record<string, string>> = {
  integer: 'must be a whole number, in digits',
  number: 'must be a number, in digits',
  boolean: 'must be true or false',
}

/**
 * Lists the values of an enum or a union of literals, and states how a type is written; the library's messages do
 * neither.
 */
function wordsOf(error: TLocalizedValidationError, all: readonly TLocalizedValidationError[]): string {
  if (error.keyword === 'enum') return `must be one of ${error.params.allowedValues.join(', ')}`
  if (error.keyword === 'const') {
    // The library reports one error for each literal of a union.
    const values = all.flatMap((each) =>
      each.keyword === 'const' && each.instancePath === error.instancePath ? [each.params.allowedValue] : [],
    )
    return `must be ${values.length > 1 ? 'one of ' : ''}${values.join(', ')}`
  }
  const written = error.keyword === 'type' ? TYPES[String(error.params.type)] : undefined
  return written ?? error.message
}

interface Schema {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
}

const takesText = ({ type, anyOf = [] }: Schema): boolean => type === 'string' || anyOf.some(takesText)

/**
 * Converts a text to the type of its schema; undefined if it is empty. A single text becomes a list where one is
 * expected.
 */
function fromText(schema: Schema, given: unknown): unknown {
  return mapFields(schema, given, (field, each, required) => {
    if (each === '' && !(required && takesText(field))) return undefined
    if (field.type === 'array' && field.items) return [each].flat().map((item) => readText(field.items as Schema, item))
    return readText(field, each)
  })
}

/**
 * Numbers are digits, with a point if the schema allows fractions; booleans are those of Go's ParseBool, as in the
 * public API.
 */
function readText({ type, anyOf = [] }: Schema, given: unknown): unknown {
  if (typeof given !== 'string') return given
  if (type === 'boolean') return /^(true|t|1)$/i.test(given) ? true : /^(false|f|0)$/i.test(given) ? false : given
  if (type === 'integer') return /^-?\d+$/.test(given) ? Number(given) : given
  if (type === 'number') return /^-?\d+(\.\d+)?$/.test(given) ? Number(given) : given
  if (type === 'null') return given === 'null' ? null : given
  const [value = given] = anyOf.map((each) => readText(each, given)).filter((each) => each !== given)
  return value
}

/**
 * Rewrites the known fields of a schema at any depth; fields rewritten to `undefined` are left out: clients send "" for
 * them.
 */
function mapFields(
  { properties, required = [], items }: Schema,
  given: unknown,
  rewrite: (field: Schema, value: unknown, required: boolean) => unknown,
): unknown {
  if (items && Array.isArray(given)) return given.map((each) => mapFields(items, each, rewrite))
  if (!properties || typeof given !== 'object' || given === null || Array.isArray(given)) return given
  const fields = Object.entries(given).flatMap(([name, each]) => {
    const field = properties[name]
    if (!field) return [[name, each] as const]
    const value = rewrite(field, mapFields(field, each, rewrite), required.includes(name))
    return value === undefined ? [] : [[name, value] as const]
  })
  return Object.fromEntries(fields)
}
