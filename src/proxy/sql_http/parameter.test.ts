import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isInexact, parameterText, parseExactly } from './parameter.ts'

test('what JSON holds becomes the text that Postgres reads', () => {
  const texts: [unknown, string | null][] = [
    [null, null],
    ['', ''],
    ['a "b" \\ c', 'a "b" \\ c'],
    [42, '42'],
    [-0.5, '-0.5'],
    [true, 'true'],
    [{ a: [1, null, 'x'] }, '{"a":[1,null,"x"]}'],
    [[], '{}'],
    [[1, null, 'a"b\\c', 'NULL', '', true], '{"1",NULL,"a\\"b\\\\c","NULL","","true"}'],
    [[[1, 2], [3]], '{{"1","2"},{"3"}}'],
    [[{ a: 'x' }], '{"{\\"a\\":\\"x\\"}"}'],
  ]
  for (const [value, text] of texts) assert.equal(parameterText(value), text)
})

test('no digit of a number is lost', () => {
  const source = '[9007199254740993, 0.12345678901234567890, 1e400, {"a": [123456789012345678901]}, -1]'
  const read = JSON.parse(source) as unknown[]
  assert.deepEqual(read.map(isInexact), [true, true, true, true, false])
  assert.deepEqual((parseExactly(source) as unknown[]).map(parameterText), [
    '9007199254740993',
    '0.12345678901234567890',
    '1e400',
    '{"a":[123456789012345678901]}',
    '-1',
  ])
})
