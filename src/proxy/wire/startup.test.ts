import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeStartup, packetLength, parseStartup } from './startup.ts'

const V3 = 3 << 16

test('a startup packet survives reading and writing, whatever bytes its texts have', () => {
  const bytes = Buffer.from(Array.from({ length: 255 }, (_, index) => index + 1)).toString('latin1')
  const startup = {
    version: V3 | 2,
    parameters: new Map([
      ['user', 'alice'],
      ['database', bytes],
      ['options', '-c a=b'],
      ['empty', ''],
    ]),
  }
  const packet = encodeStartup(startup)
  assert.equal(packetLength(packet), packet.length)
  assert.deepEqual(parseStartup(packet), startup)
})

test('the last of two equal names counts and is the only one passed on', () => {
  const body = 'user\0alice\0user\0neap_admin\0\0'
  const packet = Buffer.concat([Buffer.from([0, 0, 0, 8 + body.length, 0, 3, 0, 0]), Buffer.from(body)])
  assert.deepEqual([...parseStartup(packet).parameters], [['user', 'neap_admin']])
})

test('malformed packets are refused with a protocol violation', () => {
  const malformed = [
    '',
    'user',
    'user\0',
    'user\0alice',
    'user\0alice\0',
    'user\0alice\0\0more',
    'user\0\0\0\0',
    '\0\0',
  ]
  for (const body of malformed) {
    const packet = Buffer.concat([Buffer.from([0, 0, 0, 8 + body.length, 0, 3, 0, 0]), Buffer.from(body)])
    assert.throws(() => parseStartup(packet), { code: '08P01' }, JSON.stringify(body))
  }
  const version2 = Buffer.from([0, 0, 0, 9, 0, 2, 0, 0, 0])
  assert.throws(() => parseStartup(version2), { code: '0A000' })
})

test('a length is known from four bytes on, and must be sane', () => {
  assert.equal(packetLength(Buffer.from([0, 0, 0])), undefined)
  assert.equal(packetLength(Buffer.from([0, 0, 0, 8])), 8)
  for (const head of [
    [0, 0, 0, 7],
    [0, 0, 0x27, 0x11],
    [0xff, 0xff, 0xff, 0xff],
    [0x47, 0x45, 0x54, 0x20],
  ]) {
    assert.equal(packetLength(Buffer.from(head)), 'invalid')
  }
})
