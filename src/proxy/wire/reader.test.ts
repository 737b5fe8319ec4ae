import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DATA_ROW, ERROR_RESPONSE, READY_FOR_QUERY } from './message_types.ts'
import { encodeFields, encodeMessage } from './messages.ts'
import { createReader } from './reader.ts'

const ready = encodeMessage(READY_FOR_QUERY, Buffer.from('I'))
const row = encodeMessage(DATA_ROW, Buffer.alloc(100_000, 'r'))

/** Reads bytes in chunks of `size`, and returns what was forwarded and the lengths that were examined. */
function readIn(bytes: Buffer, size: number, examine: (type: number) => Buffer | undefined = () => undefined) {
  const forwarded: Buffer[] = []
  const examined: number[] = []
  const reader = createReader(
    (type, chunk, at, end) => {
      examined.push(Math.min(end, chunk.length) - at)
      const instead = examine(type)
      if (instead) reader.insert(instead)
      return instead === undefined
    },
    (chunk) => forwarded.push(Buffer.from(chunk)),
    () => assert.fail('invalid'),
  )
  for (let at = 0; at < bytes.length; at += size) reader.read(bytes.subarray(at, at + size))
  return { forwarded: Buffer.concat(forwarded), examined }
}

test('a message is replaced wherever the chunks are cut', () => {
  const error = encodeFields('ERROR', '25006', 'cannot')
  const instead = encodeFields('ERROR', '53100', 'full')
  const bytes = Buffer.concat([row, error, ready, row, ready])
  for (const size of [1, 4, 7, 1_000, 65_536, bytes.length]) {
    const { forwarded } = readIn(bytes, size, (type) => (type === ERROR_RESPONSE ? instead : undefined))
    assert.deepEqual(forwarded, Buffer.concat([row, instead, ready, row, ready]), `chunks of ${size}`)
  }
})

test('an error of megabytes is examined by its beginning, and not kept', () => {
  const error = encodeFields('ERROR', 'P0001', 'x'.repeat(5 * 2 ** 20))
  const { forwarded, examined } = readIn(Buffer.concat([error, ready]), 16_384)
  assert.ok((examined[0] ?? 0) < 100_000, `${examined[0]} bytes were kept`)
  assert.deepEqual(forwarded, Buffer.concat([error, ready]))
  const replaced = readIn(Buffer.concat([error, ready]), 16_384, (type) =>
    type === ERROR_RESPONSE ? ready : undefined,
  )
  assert.deepEqual(replaced.forwarded, Buffer.concat([ready, ready]))
})
