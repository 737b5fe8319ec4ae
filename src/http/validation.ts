import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'

/**
 * Checks requests against the very schemas that type them. Parameters and query arrive as text and are converted; a body
 * is not: a wrong type there is an error that names the field. No body is an empty one.
 */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const validator = Compile(schema)
  const isText = httpPart === 'querystring' || httpPart === 'params'
  return (given: unknown) => {
    const value = isText ? Value.Default(schema, Value.Convert(schema, given)) : withoutEmpty(schema, given ?? {})
    if (validator.Check(value)) return { value }
    const [first] = validator.Errors(value)
    const field = (first?.instancePath ?? '').split('/').filter(Boolean).join('.')
    const part = httpPart === 'params' ? 'path parameter ' : httpPart === 'body' ? '' : 'query parameter '
    const where = field === '' && httpPart === 'body' ? 'the body' : `${part}${field}`.trim()
    return { error: new Error(`invalid request: ${where} ${first?.message ?? 'is not valid'}`) }
  }
}

interface ObjectSchema {
  readonly properties?: Record<string, ObjectSchema & { readonly type?: string }>
  readonly required?: readonly string[]
}

/** Clients send "" for optional text that they mean to leave out. */
function withoutEmpty({ properties, required = [] }: ObjectSchema, given: unknown): unknown {
  if (!properties || typeof given !== 'object' || given === null || Array.isArray(given)) return given
  const kept = Object.entries(given).filter(
    ([name, value]) => !(value === '' && properties[name]?.type === 'string' && !required.includes(name)),
  )
  return Object.fromEntries(kept.map(([name, value]) => [name, withoutEmpty(properties[name] ?? {}, value)]))
}
