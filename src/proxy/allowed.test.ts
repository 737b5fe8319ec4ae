import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAllowed } from './allowed.ts'

test('an address is let in by itself, by a range and by a network, and by nothing else', () => {
  const lists: [string, string[], boolean][] = [
    ['10.1.2.3', [], true],
    ['10.1.2.3', ['10.1.2.3'], true],
    ['10.1.2.3', ['10.1.2.4'], false],
    ['10.1.2.3', ['10.1.2.0/24'], true],
    ['10.1.3.3', ['10.1.2.0/24', '192.168.0.0/16'], false],
    ['10.1.2.3', ['10.1.2.1-10.1.2.3'], true],
    ['10.1.2.4', ['10.1.2.1-10.1.2.3'], false],
    ['10.1.2.2', ['10.1.2.3-10.1.2.1'], false],
    ['::ffff:10.1.2.3', ['10.0.0.0/8'], true],
    ['fd00::1', ['fd00::/8'], true],
    ['fe80::1', ['fd00::/8', '0.0.0.0/0'], false],
    ['fd00::5', ['fd00::1-fd00::9'], true],
    ['10.1.2.3', ['no address', '10.1.2.3/99'], false],
    ['', ['0.0.0.0/0'], false],
  ]
  for (const [address, allowed, expected] of lists)
    assert.equal(isAllowed(address, allowed), expected, `${address} by ${allowed.join()}`)
  assert.equal(isAllowed(undefined, ['0.0.0.0/0', '::/0']), false)
})
