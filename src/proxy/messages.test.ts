import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ProxyError } from './errors.ts'
import { encodeError, endsReady, errorCode, followStart } from './messages.ts'

const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])
const KEY = Buffer.from([0x4b, 0, 0, 0, 12, 0, 0, 1, 2, 9, 8, 7, 6])
const PARAMETER = Buffer.concat([Buffer.from([0x53, 0, 0, 0, 9]), Buffer.from('a\0b\0Z')])

test('an error is read as it was written', () => {
  const message = encodeError(new ProxyError('start_failed', { detail: 'with\0zero' }))
  assert.equal(errorCode(message), '08001')
  assert.match(message.toString(), /SFATAL\0VFATAL\0C08001\0MCouldn't connect to compute node\0Dwithzero\0\0$/)
  for (let length = 0; length < message.length; length++)
    assert.equal(errorCode(message.subarray(0, length)), undefined)
  assert.equal(errorCode(READY), null)
})

test('the start of a session is followed whatever the chunks', () => {
  const start = Buffer.concat([
    Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0]),
    PARAMETER,
    KEY,
    PARAMETER,
    READY,
    PARAMETER,
  ])
  const readyAt = start.length - PARAMETER.length - READY.length
  for (let size = 1; size <= start.length; size++) {
    const keys: string[] = []
    const follow = followStart((key) => keys.push(key.toString('hex')))
    let at = 0
    while (!follow(start.subarray(at, at + size))) at += size
    assert.ok(at <= readyAt && readyAt < at + size, `chunks of ${size}`)
    assert.deepEqual(keys, ['0000010209080706'])
  }
})

test('rest is known by what was sent last', () => {
  assert.ok(endsReady(READY))
  assert.ok(endsReady(Buffer.concat([PARAMETER, READY])))
  for (const chunk of [Buffer.alloc(0), READY.subarray(1), PARAMETER, Buffer.concat([READY, PARAMETER])])
    assert.ok(!endsReady(chunk))
})
