import fc, { type Arbitrary } from 'fast-check'

/** The parts of JSON Schema that the API's schemas use. */
export interface Schema {
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly minItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly multipleOf?: number
}

/** Texts with a special meaning to components behind the API: Postgres, paths, HTML, terminals, JavaScript. */
export const NASTY = [
  `'; drop table operation; --`,
  `" or "1"="1`,
  '$1',
  '%s%n%x',
  '%00',
  '%',
  '../../../../etc/passwd',
  '/dev/null',
  'C:\\con',
  '\0',
  'a\0b',
  '\u0001\u001b[2J',
  '\ud800',
  'x\udfff',
  '\u202egnp.exe',
  '👩‍👩‍👧‍👦',
  'İıſK',
  '\ufeff',
  '\r\nset-cookie: a=b',
  '<script>alert(1)</script>',
  '{{7*7}}',
  '__proto__',
  'constructor',
  'null',
  'NaN',
  '-0',
  '1e400',
  '0x10',
  ' ',
  '\t',
  'x'.repeat(64),
  'x'.repeat(300),
  'ü'.repeat(32),
  'infinity',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999999Z',
  '2026-02-30T25:61:61Z',
  '2026-02-30T00:00:00Z',
  '0000-01-01T00:00:00Z',
  '2026-01-01T00:00:00+99:00',
  'postgres',
  'pg_signal_backend',
  'neap_admin',
  'public',
] as const

const nasty = fc.constantFrom<string>(...NASTY)
const text = fc.oneof(fc.string({ maxLength: 40 }), fc.string({ unit: 'binary', maxLength: 40 }), nasty)

/** Values that a schema allows, including the known values of fields by name. */
export function valid(schema: Schema, known: Readonly<Record<string, string>>, name = ''): Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map((each) => valid(each, known, name)))
  switch (schema.type) {
    case 'object':
      return schema.patternProperties ? records(schema.patternProperties, known) : objects(schema, known)
    case 'array':
      return fc.array(valid(schema.items ?? {}, known, name), { minLength: schema.minItems ?? 0, maxLength: 3 })
    case 'string':
      return strings(schema, known[name])
    case 'integer':
      return fc.oneof(
        fc.integer(bounds(schema)),
        ...[0, 1, 60, 3600].filter(within(schema)).map((each) => fc.constant(each)),
      )
    case 'number':
      return fc.oneof(
        multiples(schema),
        ...[0.25, 0.5, 1, 2, 7].filter(within(schema)).map((each) => fc.constant(each)),
      )
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    default:
      return fc.jsonValue({ maxDepth: 2 })
  }
}

function objects({ properties = {}, required = [] }: Schema, known: Readonly<Record<string, string>>) {
  const fields = Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, valid(each, known, name)]))
  return fc.record(fields, { requiredKeys: required.filter((name) => name in fields), noNullPrototype: true })
}

function records(patterns: Readonly<Record<string, Schema>>, known: Readonly<Record<string, string>>) {
  const [each = {}] = Object.values(patterns)
  const keys = fc.oneof(fc.constantFrom('work_mem', 'search_path', 'jit', 'shared_preload_libraries'), text)
  return fc.dictionary(keys, valid(each, known), { maxKeys: 3, noNullPrototype: true })
}

function strings(schema: Schema, known: string | undefined): Arbitrary<string> {
  const { minLength = 0, maxLength = 2000 } = schema
  const fits = (value: string) => value.length >= minLength && value.length <= maxLength
  if (schema.format === 'uri') return fc.webUrl({ validSchemes: ['https'] })
  if (schema.pattern === NO_NUL) return text.filter((value) => fits(value) && isText(value))
  if (schema.pattern) return fc.stringMatching(new RegExp(schema.pattern))
  if (schema.format === 'uuid') return fc.uuid()
  if (schema.format === 'date-time') return fc.date({ ...YEARS, noInvalidDate: true }).map((date) => date.toISOString())
  const any = text.filter(fits)
  return known === undefined ? any : fc.oneof(fc.constant(known), any)
}

/** The range of dates that RFC 3339 can represent. */
const YEARS = { min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59.999Z') }

/** The document's pattern for free text; JSON implies that it is Unicode. */
const NO_NUL = '^[^\\u0000]*$'
const isText = (value: string) => !value.includes('\0') && value.isWellFormed()

function multiples({ multipleOf: step, ...schema }: Schema): Arbitrary<number> {
  if (step === undefined) return fc.double({ noNaN: true, ...bounds(schema) })
  const { min, max } = bounds(schema)
  return fc.integer({ min: Math.ceil(min / step), max: Math.floor(max / step) }).map((count) => count * step)
}

const bounds = ({ minimum = -1e9, maximum = 1e9 }: Schema) => ({ min: minimum, max: maximum })
const within =
  ({ minimum = -Infinity, maximum = Infinity }: Schema) =>
  (value: number) =>
    value >= minimum && value <= maximum

const deep = (depth: number): unknown => (depth === 0 ? 'deep' : { a: deep(depth - 1) })
const list = (depth: number): unknown => (depth === 0 ? [] : [list(depth - 1)])

/** Values that hardly any field allows. */
const wrong: Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, true, -1, 1.5, 2 ** 53, -(2 ** 63), 1e308, 5e-324, [], {}, [null], ''),
  fc.constantFrom(2, 60, 500).map(deep),
  fc.constantFrom(60, 500).map(list),
  fc.constant('m'.repeat(2 ** 20)),
  nasty,
  fc.jsonValue({ maxDepth: 3 }),
)

/** The value with one change: an invalid value, a missing field or an unknown one. */
export function broken(value: unknown): Arbitrary<unknown> {
  if (typeof value !== 'object' || value === null) return wrong
  const keys = Object.keys(value)
  const replaced = (key: string, by: unknown): unknown =>
    Array.isArray(value)
      ? value.map((each, index) => (String(index) === key ? by : (each as unknown)))
      : { ...value, [key]: by }
  const without = (key: string) => Object.fromEntries(Object.entries(value).filter(([name]) => name !== key))
  const more = fc.tuple(text, wrong).map(([key, by]) => JSON.parse(JSON.stringify({ ...value, [key]: by })) as unknown)
  if (keys.length === 0) return fc.oneof(wrong, more)
  return fc
    .constantFrom(...keys)
    .chain((key) =>
      fc.oneof(
        { weight: 4, arbitrary: broken((value as Record<string, unknown>)[key]).map((by) => replaced(key, by)) },
        { weight: 1, arbitrary: fc.constant(without(key)) },
        { weight: 1, arbitrary: more },
        { weight: 1, arbitrary: wrong },
      ),
    )
}
