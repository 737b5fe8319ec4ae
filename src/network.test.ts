import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cidrList, forwardedAddress, networkOf, ownerOf, plainAddress } from './network.ts'

test('a client is identified by its address, and by its network', () => {
  const addresses = [
    '192.0.2.77',
    '::ffff:192.0.2.1',
    '0:0:0:0:0:ffff:c000:201',
    '2001:db8:1:2:3::4',
    '2001:DB8:1:2::',
    '2001:db8::5',
    '::1',
    'fe80::1%eth0',
  ]
  const networks = ['2001:db8:1:2', '2001:db8:1:2', '2001:db8:0:0', '0:0:0:0', 'fe80:0:0:0']
  assert.deepEqual(addresses.map(ownerOf), ['192.0.2.77', '192.0.2.1', '192.0.2.1', ...networks])
  assert.deepEqual(addresses.map(networkOf), ['192.0.2', '192.0.2', '192.0.2', ...networks])
  assert.equal(ownerOf(undefined), '')
})

test('an address is parsed without its port into its shortest form, and other text is refused', () => {
  const given = ['192.0.2.7:5555', '[2001:db8:0::7]:443', '[::1]', '::ffff:c000:207', '2001:DB8::7']
  assert.deepEqual(given.map(plainAddress), ['192.0.2.7', '2001:db8::7', '::1', '192.0.2.7', '2001:db8::7'])
  for (const text of ['', 'unknown', '_hidden', '192.0.2', "192.0.2.7'", '192.0.2.7:', '[::1', 'x'.repeat(3_000)])
    assert.equal(plainAddress(text), undefined, text)
})

test('X-Forwarded-For counts only as far as trusted proxies wrote it, and only its addresses', () => {
  const trusted = cidrList(['10.0.0.0/8'])
  const from = (peer: string, header?: string | string[]) => forwardedAddress(peer, header, trusted)
  assert.equal(from('192.0.2.1', '203.0.113.5'), '192.0.2.1')
  assert.equal(from('10.0.0.1', '203.0.113.5'), '203.0.113.5')
  assert.equal(from('10.0.0.1', '8.8.8.8, 203.0.113.5:4711, 10.0.0.2'), '203.0.113.5')
  assert.equal(from('10.0.0.1', ['8.8.8.8', '203.0.113.5']), '203.0.113.5')
  assert.equal(from('10.0.0.1', '203.0.113.5, nonsense'), '10.0.0.1')
  assert.equal(from('10.0.0.1', ''), '10.0.0.1')
  assert.equal(from('10.0.0.1'), '10.0.0.1')
  assert.equal(from('::ffff:192.0.2.1'), '192.0.2.1')
  assert.equal(from('::ffff:10.0.0.1', '203.0.113.5'), '203.0.113.5')
  assert.equal(forwardedAddress('192.0.2.1', '203.0.113.5', cidrList(['0.0.0.0/0'])), '203.0.113.5')
})
