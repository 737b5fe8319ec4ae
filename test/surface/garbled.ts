import fc, { type Arbitrary } from 'fast-check'
import { broken, NASTY, type Schema, valid } from './arbitrary.ts'

/** A request as sent over the wire. */
export interface Wire {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

export interface Parts {
  readonly params?: Schema
  readonly query?: Schema
  readonly body?: Schema
}

const TYPES = [
  'text/plain',
  'application/xml',
  'multipart/form-data; boundary=x',
  'application/json; charset=utf-16',
  'application/x-www-form-urlencoded',
  'application/JSON',
  'json',
  ';;;',
  '',
]

/** Nested deeply enough to overflow the stack of a recursive parser. */
const DEEPLY_NESTED = '['.repeat(100_000) + ']'.repeat(100_000)

/** Bodies from a schema: valid, invalid in one place, or malformed. */
export function bodies(
  schema: Schema,
  known: Readonly<Record<string, string>>,
): Arbitrary<Pick<Wire, 'headers' | 'body'>> {
  const values = fc.oneof(
    { weight: 2, arbitrary: valid(schema, known) },
    { weight: 5, arbitrary: valid(schema, known).chain(broken) },
  )
  const json = (text: string | Buffer, type = 'application/json') => ({ headers: { 'content-type': type }, body: text })
  return values.chain((value) => {
    const text = JSON.stringify(value) ?? 'null'
    return fc.oneof(
      { weight: 8, arbitrary: fc.constant(json(text)) },
      { weight: 1, arbitrary: fc.nat(text.length).map((end) => json(text.slice(0, end))) },
      {
        weight: 1,
        arbitrary: fc
          .constantFrom(
            `\ufeff${text}`,
            `${text}]`,
            `[${text}`,
            text.replace(/}$/, ',}'),
            text.replace(/}$/, `,"deep":${DEEPLY_NESTED}}`),
            'undefined',
          )
          .map((each) => json(each)),
      },
      { weight: 1, arbitrary: fc.uint8Array({ minLength: 1, maxLength: 50 }).map((bytes) => json(Buffer.from(bytes))) },
      { weight: 1, arbitrary: fc.constantFrom(...TYPES).map((type) => json(text, type)) },
      {
        weight: 3,
        arbitrary: fc
          .constantFrom('', '%', '&&==[]&[a]=1', '[__proto__][x]=1', '[')
          .map((end) => json(`${form(value)}${end}`, 'application/x-www-form-urlencoded')),
      },
    )
  })
}

/** A value in the form encoding that clients use. */
function form(value: unknown, prefix = ''): string {
  if (typeof value !== 'object' || value === null) return `${prefix}=${encode(String(value))}`
  return Object.entries(value)
    .map(([name, each]) => form(each, prefix ? `${prefix}[${encode(name)}]` : encode(name)))
    .join('&')
}

/** Percent-encodes any text; a lone surrogate becomes the bytes that some clients send for it. */
export function encode(text: string): string {
  return text.isWellFormed() ? encodeURIComponent(text) : '%ED%A0%80'
}

const RAW = [
  '%',
  '%zz',
  '%c0%af',
  '%ff',
  '%00',
  '..%2f..%2fetc',
  '%2e%2e',
  ';',
  '*',
  '[]',
  '{}',
  '%F0%9F%98%80',
  'a'.repeat(257),
  'b'.repeat(5000),
  '-1',
  '0',
  '99999999999999999999',
  '1e3',
  'NaN',
]
const raw = fc.oneof(fc.constantFrom(...RAW), fc.constantFrom(...NASTY).map(encode))

export function queries(schema: Schema, known: Readonly<Record<string, string>>): Arbitrary<string> {
  const names = Object.keys(schema.properties ?? {})
  const pair = (name: string, value: unknown) => `${name}=${encode(String(value))}`
  const right = valid(schema, known).map((value) =>
    Object.entries(value as object).map(([name, each]) => pair(name, each)),
  )
  const more = fc.oneof(
    fc.tuple(fc.constantFrom(...names, 'nobody'), raw).map(([name, value]) => `${name}=${value}`),
    fc
      .tuple(fc.constantFrom(...names), fc.constantFrom('[]', '[a]', '[__proto__]', '.x', '%5B%5D'))
      .map(([name, end]) => `${name}${end}=1`),
    fc.constantFrom('&&', '=', '?', 'a%', '%00=1', '__proto__=1', 'x'.repeat(4000)),
  )
  return fc
    .tuple(right, fc.array(more, { maxLength: 2 }))
    .map(([pairs, others]) => [...pairs, ...others].join('&'))
    .map((query) => (query === '' ? '' : `?${query}`))
}

/** A path of a route: valid, or with one placeholder filled by an invalid id. */
export function paths(
  template: string,
  values: Readonly<Record<string, string>>,
  mayBeRight: boolean,
): Arbitrary<string> {
  const names = [...template.matchAll(/:(\w+)/g)].map(([, name]) => name ?? '')
  const fill = (bad?: string, by = '') =>
    template.replace(/:(\w+)/g, (_, name: string) => (name === bad ? by : encodeURIComponent(values[name] ?? 'nobody')))
  if (names.length === 0) return fc.constant(template)
  const wrong = fc.tuple(fc.constantFrom(...names), raw).map(([name, by]) => fill(name, by))
  return mayBeRight ? fc.oneof({ weight: 5, arbitrary: fc.constant(fill()) }, { weight: 1, arbitrary: wrong }) : wrong
}

/** Headers that a route may read, occasionally; never a preference to wait long. */
export const headers: Arbitrary<Record<string, string>> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc
        .constantFrom('', 'wait=', 'wait=x', 'wait=-5', 'wait=0', 'respond-async, wait=0', '"')
        .map((prefer) => ({ prefer })),
      fc
        .constantFrom('', 'k', 'k'.repeat(255), 'k'.repeat(256), 'é', '"quoted"', "'")
        .map((key) => ({ 'idempotency-key': key })),
      fc.constantFrom('', '-1', 'x', '99999999999999999999', '1.5').map((id) => ({ 'last-event-id': id })),
      fc.constantFrom('*/*', 'text/html', 'nothing').map((accept) => ({ accept })),
    ),
  },
)
