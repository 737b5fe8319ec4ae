import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'

/**
 * Checks requests against the very schemas that type them. Parameters and query arrive as text and are converted; a body
 * is not: a wrong type there is an error that names the field.
 */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const validator = Compile(schema)
  const isText = httpPart === 'querystring' || httpPart === 'params'
  return (given: unknown) => {
    const value = isText ? Value.Default(schema, Value.Convert(schema, given)) : given
    if (validator.Check(value)) return { value }
    const [first] = validator.Errors(value)
    const field = first?.instancePath.split('/').filter(Boolean).join('.')
    const where = httpPart === 'body' ? field || 'the body' : `${httpPart === 'params' ? 'path parameter' : 'query parameter'} ${field || ''}`.trim()
    return { error: new Error(`invalid request: ${where} ${first?.message ?? 'is not valid'}`) }
  }
}
