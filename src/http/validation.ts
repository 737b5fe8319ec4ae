import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import type { TLocalizedValidationError } from 'typebox/error'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { FormBody } from './bodies.ts'
import { unfitFor } from './unfit.ts'

/**
 * Checks requests against the very schemas that type them. Parameters, query and forms arrive as text and are converted; a
 * JSON body is not: a wrong type there is an error that names the field. No body is an empty one.
 */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const validator = Compile(schema)
  const isText = httpPart === 'querystring' || httpPart === 'params'
  // The ids in a path are text and stay that: nothing is to be converted, and no time spent on it.
  const staysText = httpPart === 'params' && Object.values((schema as Schema).properties ?? {}).every(takesText)
  return (given: unknown) => {
    // Bodies were looked at when they were parsed.
    const unfit = isText && unfitFor(given)
    if (unfit) return { error: new Error(`invalid request: the ${httpPart === 'params' ? 'path' : 'query'} ${unfit}`) }
    const value = staysText
      ? given
      : isText
        ? Value.Default(schema, Value.Convert(schema, fromText(schema, given)))
        : given instanceof FormBody
          ? Value.Convert(schema, fromText(schema, given.fields))
          : mapFields(schema, given ?? {}, (field, each, required) =>
              each === '' && takesText(field) && !required ? undefined : each,
            )
    if (validator.Check(value)) return { value }
    const [first] = validator.Errors(value)
    const field = (first?.instancePath ?? '').split('/').filter(Boolean).join('.')
    const part = httpPart === 'params' ? 'path parameter ' : httpPart === 'body' ? '' : 'query parameter '
    const where = field === '' && httpPart === 'body' ? 'the body' : `${part}${field}`.trim()
    return { error: new Error(`invalid request: ${where} ${first ? wordsOf(first) : 'is not valid'}`) }
  }
}

/** Of a closed list, what is on it: the library only says that there is one. */
function wordsOf(error: TLocalizedValidationError): string {
  return error.keyword === 'enum' ? `must be one of ${error.params.allowedValues.join(', ')}` : error.message
}

interface Schema {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
}

const takesText = ({ type, anyOf = [] }: Schema): boolean => type === 'string' || anyOf.some(takesText)

/** What text says: nothing where it is empty, and the ways in which clients write yes and no. */
function fromText(schema: Schema, given: unknown): unknown {
  return mapFields(schema, given, (field, each, required) => {
    if (each === '' && !(required && takesText(field))) return undefined
    if (field.type !== 'boolean' || typeof each !== 'string') return each
    return /^(1|t|true)$/i.test(each) ? true : /^(0|f|false)$/i.test(each) ? false : each
  })
}

/** Rewrites the fields that a schema knows, at any depth; those that become `undefined` are left out, as clients mean by "". */
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
