import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { test } from 'node:test'
import { loadConfig } from './config.ts'
import { apiOrigin, certifiedHosts, clientsResolve, isOpen, proxyPlaces, publicHost } from './public_address.ts'

const config = (env: NodeJS.ProcessEnv = {}) => loadConfig({}, { NEAP_DATA_DIR: '/x', ...env })

test('Neap listens on loopback by default, and on the standard port too', () => {
  const plain = config()
  assert.deepEqual(proxyPlaces(plain), [
    { host: '127.0.0.1', port: 7071 },
    { host: '127.0.0.1', port: 5432, isOptional: true },
  ])
  assert.deepEqual([isOpen(plain), publicHost(plain), apiOrigin(plain)], [false, 'localhost', 'http://127.0.0.1:7070'])
  assert.equal(proxyPlaces(config({ NEAP_PROXY_PORT: '5432' })).length, 1)
  assert.equal(proxyPlaces(config({ NEAP_EXTRA_PROXY_PORT: '0' })).length, 1)
  assert.equal(proxyPlaces(config({ NEAP_EXTRA_PROXY_PORT: '7070' })).length, 1, 'the port of the API')
})

test('clients get the configured address, else the listen address, and https unless it is loopback', () => {
  const published = (env: NodeJS.ProcessEnv) => [publicHost(config(env)), apiOrigin(config(env))]
  assert.deepEqual(published({ NEAP_LISTEN: '10.0.0.5' }), ['10.0.0.5', 'https://10.0.0.5:7070'])
  assert.deepEqual(published({ NEAP_LISTEN: '::' }), [
    hostname().toLowerCase(),
    `https://${hostname().toLowerCase()}:7070`,
  ])
  assert.deepEqual(published({ NEAP_LISTEN: '2001:db8::5' }), ['2001:db8::5', 'https://[2001:db8::5]:7070'])
  assert.deepEqual(published({ NEAP_LISTEN: '127.0.0.1,10.0.0.5' }), ['10.0.0.5', 'http://127.0.0.1:7070'])
  assert.deepEqual(published({ NEAP_LISTEN: '127.0.0.2' }), ['127.0.0.2', 'http://127.0.0.2:7070'])
  const named = { NEAP_LISTEN: '0.0.0.0', NEAP_PUBLIC_HOST: 'db.example.com' }
  assert.deepEqual(published(named), ['db.example.com', 'https://db.example.com:7070'])
  assert.deepEqual(certifiedHosts(config(named)), { dns: ['db.example.com'], ip: [] })
  assert.deepEqual(certifiedHosts(config({ NEAP_LISTEN: '10.0.0.5' })), { dns: [], ip: ['10.0.0.5', '10.0.0.5'] })
})

test('host names are handed out when clients can resolve them', () => {
  const resolve = (env: NodeJS.ProcessEnv, here: boolean) => clientsResolve(config(env), here)
  assert.deepEqual([resolve({}, true), resolve({}, false)], [true, false])
  const open = { NEAP_LISTEN: '10.0.0.5' }
  assert.equal(resolve(open, true), false, 'localhost is another machine there')
  assert.equal(resolve({ ...open, NEAP_DOMAIN: 'example.com' }, true), true)
  const region = { NEAP_DOMAIN: 'example.com', NEAP_REGION: 'eu' }
  assert.equal(resolve({ ...region, NEAP_PUBLIC_HOST: 'eu.example.com' }, false), true)
  assert.equal(resolve({ ...region, NEAP_PUBLIC_HOST: 'db.example.com' }, true), false)
})

test('an invalid address is refused with the name of its setting', () => {
  for (const value of ['localhost', '10.0.0', '10.0.0.1/8', 'fe80::1%eth0', '10.0.0.1,,10.0.0.2', '0.0.0.0,127.0.0.1'])
    assert.throws(() => config({ NEAP_LISTEN: value }), /NEAP_LISTEN is .* it takes IP addresses/, value)
})

test('a repeated address counts once, and a public host is any valid DNS name', () => {
  assert.deepEqual(config({ NEAP_LISTEN: '::1,0:0:0:0:0:0:0:1,127.0.0.1' }).listen, ['::1', '127.0.0.1'])
  const long = 'k8s-default-neapprox-0123456789-0123456789abcdef.elb.eu-central-1.amazonaws.com'
  assert.equal(config({ NEAP_PUBLIC_HOST: long }).publicHost, long)
  for (const host of ['a..b', '.a', 'a.', 'fe80::1%eth0', `${'a'.repeat(64)}.test`, 'DB.test'])
    assert.throws(() => config({ NEAP_PUBLIC_HOST: host }), /NEAP_PUBLIC_HOST is .* it takes a host name/, host)
})
