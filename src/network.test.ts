import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkOf, ownerOf } from './network.ts'

test('an address is known by who has it, and by the network that it is in', () => {
  const addresses = [
    '192.0.2.77',
    '::ffff:192.0.2.1',
    '2001:db8:1:2:3::4',
    '2001:DB8:1:2::',
    '2001:db8::5',
    '::1',
    'fe80::1%eth0',
  ]
  const networks = ['2001:db8:1:2', '2001:db8:1:2', '2001:db8:0:0', '0:0:0:0', 'fe80:0:0:0']
  assert.deepEqual(addresses.map(ownerOf), ['192.0.2.77', '192.0.2.1', ...networks])
  assert.deepEqual(addresses.map(networkOf), ['192.0.2', '192.0.2', ...networks])
  assert.equal(ownerOf(undefined), '')
})
