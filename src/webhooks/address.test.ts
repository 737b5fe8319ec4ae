import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, isIP } from 'node:net'
import { test } from 'node:test'
import { cidrList } from '../network.ts'
import { addressesOf, judge, NotDelivered, requireWebhookUrl } from './address.ts'
import { post } from './post.ts'

const NONE = cidrList([])
const LOOPBACK = cidrList(['127.0.0.1/32', 'fd00:1::/32'])

const PUBLIC = [
  '1.1.1.1',
  '8.8.8.8',
  '172.15.255.255',
  '172.32.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '223.255.255.255',
].concat(['2606:4700:4700::1111', '2a00::1', '2001:4860:4860::8888', '2400::1'])

const CLOSED = ['0.0.0.0', '0.1.2.3', '10.0.0.1', '100.64.0.1', '100.127.255.255', '127.0.0.1', '127.255.255.255']
  .concat(['169.254.169.254', '172.16.0.1', '172.31.255.255', '192.0.0.8', '192.0.2.1', '192.168.1.1', '198.18.0.1'])
  .concat(['198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255'])
  .concat(['::', '::1', '::ffff:127.0.0.1', '::ffff:8.8.8.8', '::ffff:7f00:1', '::127.0.0.1', '64:ff9b::7f00:1'])
  .concat(['64:ff9b::808:808', '64:ff9b:1::a00:1', '2002:7f00:1::', '2002:a9fe:a9fe::1', '2001::1', '2001:db8::1'])
  .concat([
    '3fff::1',
    'fc00::1',
    'fd00::1',
    'fe80::1',
    'fe80::1%lo',
    'fec0::1',
    'ff02::1',
    '100::1',
    '2606::1%lo',
    'x',
    '',
  ])

test('only public addresses and allowed networks are reachable', () => {
  for (const address of PUBLIC) assert.equal(judge(address, NONE), 'public', address)
  for (const address of CLOSED) assert.equal(judge(address, NONE), 'closed', address)
  assert.equal(judge('127.0.0.1', LOOPBACK), 'allowed')
  assert.equal(judge('127.0.0.2', LOOPBACK), 'closed')
  assert.equal(judge('fd00:1::7', LOOPBACK), 'allowed')
  assert.equal(judge('fd00:2::7', LOOPBACK), 'closed')
  assert.equal(judge('1.1.1.1', LOOPBACK), 'public')
})

test('an unreachable URL is refused when it is set', () => {
  assert.equal(requireWebhookUrl('https://Example.com/a?b#c', []), 'https://example.com/a?b')
  assert.equal(requireWebhookUrl('https://[2606:4700:4700::1111]:8443/', []), 'https://[2606:4700:4700::1111]:8443/')
  assert.equal(requireWebhookUrl('http://127.1:80/x', ['127.0.0.0/8']), 'http://127.0.0.1/x')
  for (const url of [
    '',
    'x',
    '/x',
    'ftp://example.com',
    'file:///etc/passwd',
    'javascript:1',
    'https://',
    'https://a b/',
  ])
    assert.throws(() => requireWebhookUrl(url, []), { code: 'INVALID_REQUEST' }, url)
  for (const url of [
    'http://example.com/',
    'https://user@example.com/',
    'https://:secret@example.com/',
    'https://127.0.0.1/',
    'https://127.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://017700000001/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://169.254.169.254/latest/meta-data',
    'http://1.1.1.1/',
  ])
    assert.throws(() => requireWebhookUrl(url, []), { code: 'NOT_ALLOWED' }, url)
  assert.throws(() => requireWebhookUrl('http://1.1.1.1/', ['10.0.0.0/8']), { code: 'NOT_ALLOWED' })
  assert.throws(() => requireWebhookUrl('http://127.0.0.1/', ['10.0.0.0/8']), { code: 'NOT_ALLOWED' })
})

const answer = (...addresses: string[]): LookupAddress[] =>
  addresses.map((address) => ({ address, family: isIP(address) }))

test('every address of a name must be reachable', async () => {
  const resolved = (url: string, ...addresses: string[]) =>
    addressesOf(new URL(url), LOOPBACK, async () => answer(...addresses))
  assert.deepEqual(await resolved('https://a.test/', '1.1.1.1', '2a00::1'), answer('1.1.1.1', '2a00::1'))
  assert.deepEqual(await resolved('http://a.test/', '127.0.0.1'), answer('127.0.0.1'))
  for (const addresses of [
    ['10.0.0.1'],
    ['1.1.1.1', '10.0.0.1'],
    ['127.0.0.1', '127.0.0.2'],
    ['1.1.1.1', '::ffff:10.0.0.1'],
  ])
    await assert.rejects(resolved('https://a.test/', ...addresses), {
      name: 'NotDelivered',
      message: /neither public nor/,
    })
  await assert.rejects(resolved('http://a.test/', '1.1.1.1'), { name: 'NotDelivered', message: /use https/ })
  await assert.rejects(resolved('http://a.test/', '127.0.0.1', '1.1.1.1'), /use https/)
  await assert.rejects(resolved('https://a.test/'), /has no address/)
})

test('a webhook connects to the address it has checked, even when the name is rebound', async (t) => {
  const hosts: (string | undefined)[] = []
  const server = createServer((request, response) => {
    hosts.push(request.headers.host)
    response.end('heard')
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const url = `http://rebound.test:${port}/`
  let asked = 0
  const send = (...turns: string[]) =>
    post(url, {}, '{}', {
      allowed: LOOPBACK,
      timeoutMs: 10_000,
      resolve: async () => answer(turns[asked++] ?? '127.0.0.2'),
    })
  assert.deepEqual(await send('127.0.0.1'), { status: 200, text: 'heard' })
  assert.deepEqual([asked, hosts], [1, [`rebound.test:${port}`]])
  // The next attempt resolves and judges again: it follows the name, or fails.
  await assert.rejects(send(), { name: 'NotDelivered', message: /neither public nor/ })
  assert.equal(hosts.length, 1)
})

test('a lookup or an answer that does not come is aborted', async (t) => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  t.after(() => {
    silent.closeAllConnections()
    silent.close()
  })
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const reach = { allowed: LOOPBACK, timeoutMs: 200 }
  const late = { name: 'NotDelivered', message: 'no answer within 0.2 s' }
  await assert.rejects(post('https://a.test/', {}, '{}', { ...reach, resolve: () => new Promise(() => {}) }), late)
  await assert.rejects(post(`http://127.0.0.1:${port}/`, {}, '{}', reach), late)
  const stop = new AbortController()
  const sent = post(`http://127.0.0.1:${port}/`, {}, '{}', { ...reach, timeoutMs: 60_000, signal: stop.signal })
  stop.abort()
  await assert.rejects(sent, (error) => !(error instanceof NotDelivered))
})
