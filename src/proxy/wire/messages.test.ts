import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ProxyError } from './errors.ts'
import { ERROR_RESPONSE } from './message_types.ts'
import { encodeError, encodeMessage, endsWithReadyForQuery, errorFields, messageAt } from './messages.ts'

const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])
const PARAMETER = Buffer.concat([Buffer.from([0x53, 0, 0, 0, 9]), Buffer.from('a\0b\0Z')])

test('an error is read as it was written, when it is whole', () => {
  const bytes = encodeError(new ProxyError('start_failed', { detail: 'with\0zero' }))
  const message = messageAt(bytes, 0, 1_000)
  assert.ok(typeof message === 'object')
  assert.equal(message.type, ERROR_RESPONSE)
  const fields = errorFields(message.body)
  assert.equal(fields.get('C'), '08001')
  assert.equal(fields.get('D'), 'withzero')
  assert.equal(fields.get('X'), undefined)
  for (let length = 0; length < bytes.length; length++)
    assert.equal(messageAt(bytes.subarray(0, length), 0, 1_000), undefined)
})

test('messages follow each other, and what cannot be one is told apart', () => {
  const bytes = Buffer.concat([READY, encodeMessage(0x70, Buffer.from('ab'), Buffer.from('c'))])
  assert.deepEqual(messageAt(bytes, READY.length, 100), { type: 0x70, body: Buffer.from('abc') })
  assert.equal(messageAt(bytes, READY.length, 6), 'invalid')
  assert.equal(messageAt(Buffer.from([0x70, 0, 0, 0, 3]), 0, 100), 'invalid')
  assert.equal(messageAt(Buffer.from([0x70, 0xff, 0, 0, 3]), 0, 100), 'invalid')
})

test('rest is known by what was sent last', () => {
  assert.ok(endsWithReadyForQuery(READY))
  assert.ok(endsWithReadyForQuery(Buffer.concat([PARAMETER, READY])))
  for (const chunk of [Buffer.alloc(0), READY.subarray(1), PARAMETER, Buffer.concat([READY, PARAMETER])])
    assert.ok(!endsWithReadyForQuery(chunk))
})
