import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import addFormats from 'ajv-formats'
import { parse } from 'yaml'

/* The OpenAPI 3.0 document that the public client ships, in a form that answers can be validated against. */

interface Operation {
  readonly requestBody?: { readonly content: Record<string, { readonly schema: RequestSchema }> }
  readonly responses: Record<string, Reference | Response>
}
/** The parts of JSON Schema that the document's request bodies use. */
export interface RequestSchema {
  readonly $ref?: string
  readonly type?: string
  readonly description?: string
  readonly enum?: readonly string[]
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly properties?: Readonly<Record<string, RequestSchema>>
  readonly required?: readonly string[]
  readonly items?: RequestSchema
  readonly additionalProperties?: RequestSchema | boolean
  readonly allOf?: readonly RequestSchema[]
  readonly anyOf?: readonly RequestSchema[]
}
interface Reference {
  readonly $ref: string
}
interface Response {
  readonly content?: Record<string, { readonly schema: object }>
}
interface Document {
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: {
    readonly responses: Record<string, Response>
    readonly schemas: Record<string, RequestSchema>
  }
}

const FILE = fileURLToPath(import.meta.resolve('@neondatabase/api-client/public-v2-for-users.gen.yaml'))
const shipped = asJsonSchema(parse(readFileSync(FILE, 'utf8'))) as Document

const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: true })
addFormats.default(ajv)
const unsigned = (bits: bigint) => (value: number) => Number.isInteger(value) && value >= 0 && value < 2 ** Number(bits)
ajv.addFormat('uint64', { type: 'number', validate: unsigned(64n) })
ajv.addFormat('int', { type: 'number', validate: Number.isInteger })
ajv.addSchema(shipped, 'shipped')

/** `METHOD /path` with every parameter as `{}`, to compare routes of different documents. */
export const plainKey = (method: string, path: string): string =>
  `${method.toUpperCase()} ${path.replaceAll(/\{[^}]*\}|:[a-z_]+/g, '{}')}`

const METHODS = ['get', 'post', 'put', 'patch', 'delete']
const operations = new Map(
  Object.entries(shipped.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method]
      return operation ? [[plainKey(method, path), operation] as const] : []
    }),
  ),
)

/** The routes that the client can call. */
export const shippedRoutes: ReadonlySet<string> = new Set(operations.keys())

/** The route of a request, as its plain key; of two matches, the one with fewer parameters. */
export function routeOf(method: string, path: string): string | undefined {
  const fits = [...operations.keys()].filter((key) => {
    const pattern = key.replaceAll(/[.*+?^$()|[\]\\]/g, String.raw`\$&`).replaceAll('{}', '[^/]+')
    return new RegExp(`^${pattern}$`).test(`${method.toUpperCase()} ${path}`)
  })
  return fits.sort((a, b) => a.split('{}').length - b.split('{}').length)[0]
}

/** The schema of the body that a route takes. Returns undefined when it takes no body. */
export function requestBodyOf(route: string): RequestSchema | undefined {
  return operations.get(route)?.requestBody?.content['application/json']?.schema
}

/** A schema with its reference resolved and the properties of its `allOf` parts merged. */
export function resolved(schema: RequestSchema): RequestSchema {
  if (schema.$ref) return resolved(shipped.components.schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {})
  const parts = (schema.allOf ?? []).map(resolved)
  return [...parts, schema].reduce((whole, part) => ({
    ...whole,
    ...part,
    properties: { ...whole.properties, ...part.properties },
    required: [...(whole.required ?? []), ...(part.required ?? [])],
  }))
}

/** The deviations of an answer from the shipped document, each as its JSON path and a message. */
export function wrongIn(route: string, status: number, body: unknown): string[] {
  const responses = operations.get(route)?.responses ?? {}
  const declared = responses[status] ?? (status >= 400 ? responses['default'] : undefined)
  if (!declared) return [`the status ${status} is not declared`]
  const response = '$ref' in declared ? shipped.components.responses[declared.$ref.split('/').at(-1) ?? ''] : declared
  const schema = response?.content?.['application/json']?.schema
  if (!schema) return body === '' ? [] : ['a body is not declared']
  const validate = ajv.compile(schema)
  if (validate(body)) return []
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
}

/**
 * Converts OpenAPI 3.0's `nullable` to an alternative of JSON Schema, and references to ones relative to the whole
 * document.
 */
function asJsonSchema(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(asJsonSchema)
  if (typeof node !== 'object' || node === null) return node
  const entries = Object.entries(node).map(([name, value]) => [
    name,
    name === '$ref' && typeof value === 'string' ? value.replace(/^#/, 'shipped#') : asJsonSchema(value),
  ])
  const { nullable, ...schema } = Object.fromEntries(entries) as Record<string, unknown>
  if (nullable === true) return { anyOf: [schema, { type: 'null' }] }
  return nullable === undefined ? schema : { ...schema, nullable }
}
