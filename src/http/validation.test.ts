import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type TSchema, Type } from 'typebox'
import { FormBody } from './bodies.ts'
import { compileValidator } from './validation.ts'

const Query = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  share: Type.Optional(Type.Number()),
  pooled: Type.Optional(Type.Boolean()),
  name: Type.Optional(Type.String()),
  until: Type.Optional(Type.Union([Type.String({ format: 'date-time' }), Type.Null()])),
  names: Type.Optional(Type.Array(Type.String())),
  counts: Type.Optional(Type.Array(Type.Integer())),
})

type Result = { readonly value?: unknown; readonly error?: Error }

function read(httpPart: 'querystring' | 'body', schema: TSchema, given: unknown): Result {
  const validate = compileValidator({ schema, httpPart, method: 'GET', url: '/' }) as (given: unknown) => Result
  return validate(given)
}

test('numbers in a query are digits, and booleans are true or false', () => {
  const right: [Record<string, string>, object][] = [
    [{ limit: '7' }, { limit: 7 }],
    [{ limit: '007' }, { limit: 7 }],
    [{ share: '-1.5' }, { share: -1.5 }],
    [{ pooled: 'true' }, { pooled: true }],
    [{ pooled: 'False' }, { pooled: false }],
    [{ limit: '', pooled: '' }, {}],
    [{ name: 'true' }, { name: 'true' }],
    [{ name: '1' }, { name: '1' }],
    [{ until: 'null' }, { until: null }],
  ]
  for (const [given, value] of right) assert.deepEqual(read('querystring', Query, given).value, value)
  const wrong: [Record<string, unknown>, RegExp][] = [
    ...['true', 'false', '1e1', '0x10', '1.0', ' 1', '+1', '1 ', '٣', 'null', 'NaN'].map(
      (limit): [object & Record<string, unknown>, RegExp] => [{ limit }, /limit must be a whole number, in digits$/],
    ),
    ...['true', '1e1', '.5', '1.', 'Infinity', '1,5'].map((share): [Record<string, unknown>, RegExp] => [
      { share },
      /share must be a number, in digits$/,
    ]),
    ...['2', 'yes', 'on', ' true', 'null'].map((pooled): [Record<string, unknown>, RegExp] => [
      { pooled },
      /pooled must be true or false$/,
    ]),
    [{ limit: ['1', '2'] }, /limit must be a whole number/],
    [{ limit: '101' }, /limit must be <= 100$/],
  ]
  for (const [given, message] of wrong)
    assert.match(read('querystring', Query, given).error?.message ?? `${JSON.stringify(given)} was taken`, message)
})

test('form fields are converted as query parameters are, and one text becomes a list of one', () => {
  const form = (fields: Record<string, unknown>) =>
    read('body', Type.Object({ endpoint: Query }), new FormBody({ endpoint: fields }))
  assert.deepEqual(form({ limit: '7', names: 'a', counts: ['1', '2'] }).value, {
    endpoint: { limit: 7, names: ['a'], counts: [1, 2] },
  })
  assert.match(form({ limit: 'true' }).error?.message ?? '', /endpoint.limit must be a whole number/)
  assert.match(form({ counts: ['1', 'true'] }).error?.message ?? '', /endpoint.counts.1 must be a whole number/)
})

test('the error of a union of literals lists them', () => {
  const Item = Type.Object({
    frequency: Type.Union([Type.Literal('hourly'), Type.Literal('daily')]),
    kind: Type.Optional(Type.Literal('backup')),
  })
  const messageOf = (item: object) => read('body', Type.Object({ items: Type.Array(Item) }), { items: [item] }).error
  assert.match(String(messageOf({ frequency: 'often' })), /: items\.0\.frequency must be one of hourly, daily$/)
  assert.match(String(messageOf({ frequency: 'daily', kind: 'copy' })), /: items\.0\.kind must be backup$/)
})

test('JSON values are not converted', () => {
  assert.deepEqual(read('body', Query, { limit: 7 }).value, { limit: 7 })
  for (const given of [{ limit: '7' }, { limit: true }, { pooled: 'true' }, { names: 'a' }])
    assert.ok(read('body', Query, given).error, JSON.stringify(given))
})
