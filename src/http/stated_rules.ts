/*
 * Rules of request fields that are checked outside of their schemas: in handlers, which answer with a code of their own
 * (422), or for every text at once (`storable_text.ts`). The OpenAPI document states them for generated clients.
 */

const COMPUTE_UNITS = { minimum: 0.25, maximum: 7, multipleOf: 0.25 }
const NOT_EMPTY = { minLength: 1 }

/** By field name, which has the same meaning in every request. */
const OF_FIELD: Readonly<Record<string, object>> = {
  autoscaling_limit_min_cu: COMPUTE_UNITS,
  autoscaling_limit_max_cu: COMPUTE_UNITS,
  suspend_timeout_seconds: { minimum: -1, maximum: 604_800 },
  name: NOT_EMPTY,
  preserve_under_name: NOT_EMPTY,
  role_name: NOT_EMPTY,
  owner_name: NOT_EMPTY,
  database_name: NOT_EMPTY,
  url: { format: 'uri', pattern: '^https?://[^\\u0000]+$' },
}

/** Postgres text cannot hold NUL. */
const NO_NUL = { pattern: '^[^\\u0000]*$' }

interface Node {
  readonly type?: unknown
  readonly properties?: Readonly<Record<string, Node>>
  readonly required?: readonly string[]
  readonly patternProperties?: Readonly<Record<string, Node>>
  readonly items?: Node
  readonly anyOf?: readonly Node[]
}

/** Returns the schema of a query, path or body with these rules added. */
export function withStatedRules(schema: Node, field = ''): Node {
  const { properties, required, patternProperties, items, anyOf } = schema
  const fields = (given: Readonly<Record<string, Node>>) =>
    Object.fromEntries(Object.entries(given).map(([name, each]) => [name, withStatedRules(each, name)]))
  const isFreeText = schema.type === 'string' && !['pattern', 'format', 'enum', 'const'].some((rule) => rule in schema)
  return {
    ...(isFreeText && NO_NUL),
    ...schema,
    ...(isLeaf(schema) && OF_FIELD[field]),
    ...(properties && { properties: fields(properties) }),
    // A field with a default is optional.
    ...(required && { required: required.filter((name) => !('default' in (properties?.[name] ?? {}))) }),
    ...(patternProperties && { patternProperties: fields(patternProperties) }),
    ...(items && { items: withStatedRules(items) }),
    ...(anyOf && { anyOf: anyOf.map((each) => withStatedRules(each, field)) }),
  }
}

const isLeaf = ({ type }: Node) => type === 'string' || type === 'number' || type === 'integer'
