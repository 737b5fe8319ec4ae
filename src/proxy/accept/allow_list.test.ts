import assert from 'node:assert/strict'
import { BlockList, isIP } from 'node:net'
import { test } from 'node:test'
import { ALL_ALLOWED, compileAllowed, isAllowed } from './allow_list.ts'

const allows = (address: string | undefined, list: readonly string[]): boolean =>
  isAllowed(address, compileAllowed(JSON.stringify(list)))

test('an address is let in by itself, by a range and by a network, and by no other entry', () => {
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
    ['10.1.2.3', ['::ffff:10.0.0.0/104'], true],
    ['fd00::1', ['fd00::/8'], true],
    ['fe80::1', ['fd00::/8', '0.0.0.0/0'], false],
    ['fe80::1%eth0', ['fe80::/10'], true],
    ['fd00::5', ['fd00::1-fd00::9'], true],
    ['64:ff9b::10.1.2.3', ['64:ff9b::a01:203'], true],
    ['10.1.2.3', ['no address', '10.1.2.3/99', '10.1.2.3/8/x', '10.1.2.3-'], false],
    ['', ['0.0.0.0/0'], false],
  ]
  for (const [address, list, expected] of lists)
    assert.equal(allows(address, list), expected, `${address} by ${list.join()}`)
  assert.equal(allows(undefined, ['0.0.0.0/0', '::/0']), false)
  assert.equal(isAllowed('10.1.2.3', ALL_ALLOWED), true)
})

test('lists of many overlapping entries let in what a walk through all of them would', () => {
  let seed = 7
  const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below
  const address = (): string =>
    random(2) === 0
      ? `10.${random(4)}.${random(4)}.${random(256)}`
      : `fd00:${random(3)}::${random(4)}:${random(65_536).toString(16)}`
  for (let round = 0; round < 30; round++) {
    const walked = new BlockList()
    const entries = Array.from({ length: 1 + random(40) }, () => {
      const one = address()
      const family = isIP(one) === 6 ? 'ipv6' : 'ipv4'
      if (random(3) === 0) {
        const prefix = (family === 'ipv6' ? 100 : 16) + random(17)
        walked.addSubnet(one, prefix, family)
        return `${one}/${prefix}`
      }
      walked.addAddress(one, family)
      return one
    })
    for (let probe = 0; probe < 200; probe++) {
      const one = address()
      assert.equal(
        allows(one, entries),
        walked.check(one, isIP(one) === 6 ? 'ipv6' : 'ipv4'),
        `${one} by ${entries.join()}`,
      )
    }
  }
})

test('a list is compiled once, and lists that are out of use are dropped', () => {
  const json = JSON.stringify(['10.0.0.1'])
  const compiled = compileAllowed(json)
  assert.equal(compileAllowed(json), compiled)
  for (let list = 0; list < 60; list++) {
    const ips = Array.from({ length: 2_500 }, (_, n) => `10.${list}.${n >> 7}.${(n & 127) * 2}`)
    compileAllowed(JSON.stringify(ips))
  }
  assert.notEqual(compileAllowed(json), compiled)
})
