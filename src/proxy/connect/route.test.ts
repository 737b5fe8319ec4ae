import assert from 'node:assert/strict'
import { test } from 'node:test'
import { route } from './route.ts'

const DOMAIN = 'local.example.com'

function routed(serverName: string | undefined, options?: string) {
  const parameters = new Map([['user', 'alice']])
  if (options !== undefined) parameters.set('options', options)
  const { endpointId, startup } = route({ version: 3 << 16, parameters }, serverName, DOMAIN)
  return { endpointId, options: startup.parameters.get('options') }
}

test('the endpoint is the first label of a host name of ours, or the word in the options', () => {
  const ep = { endpointId: 'ep-a', options: undefined }
  assert.deepEqual(routed('ep-a.local.example.com'), ep)
  assert.deepEqual(routed('EP-A.Local.Example.com.'), ep)
  assert.deepEqual(routed('ep-a-pooler.local.example.com'), ep)
  assert.deepEqual(routed('localhost', 'endpoint=ep-a'), ep)
  assert.deepEqual(routed(undefined, 'project=ep-a-pooler'), ep)
  assert.deepEqual(routed('localhost', 'endpoint=ep-a.local.example.com'), ep)
  assert.deepEqual(routed(undefined, 'endpoint=EP-A-pooler.Local.Example.com'), ep)
  assert.deepEqual(routed('other.example.org', ' endpoint=ep-a '), ep)
  assert.deepEqual(routed('ep-a.local.example.com', 'endpoint=ep-a'), ep)
})

test('only the words that are meant for Neap are taken out of the options', () => {
  const options = '-c  work_mem=1MB\tendpoint=ep-a neon_lsn:0/1 -c search_path=a\\ b\\\\c'
  assert.equal(routed(undefined, options).options, '-c work_mem=1MB -c search_path=a\\ b\\\\c')
  assert.equal(routed('ep-a.local.example.com', '-c geqo=off').options, '-c geqo=off')
  assert.equal(routed(undefined, 'end\\point=ep-a').endpointId, 'ep-a')
  assert.equal(routed(undefined, 'endpoint=ep-a x\u00a0y').options, 'x\u00a0y')
})

test('without an endpoint, or with two, nothing is guessed', () => {
  for (const name of [
    undefined,
    'localhost',
    'local.example.com',
    'a.b.local.example.com',
    '.local.example.com',
    'ep-a.local.example.com.evil',
  ]) {
    assert.equal(routed(name).endpointId, undefined)
  }
  assert.equal(routed(undefined, 'endpoint=ep-a endpoint=ep-b').endpointId, undefined)
  assert.throws(() => routed('ep-a.local.example.com', 'endpoint=ep-b'), {
    message: "Inconsistent project name inferred from SNI ('ep-a') and project option ('ep-b').",
  })
  assert.throws(() => routed(undefined, "endpoint=ep'a"), { message: /must contain only alphanumeric/ })
  assert.throws(() => routed(undefined, 'endpoint=ep-a.local.example.org'), {
    message: /must contain only alphanumeric/,
  })
  assert.throws(() => routed(undefined, 'endpoint='), { message: /must contain only alphanumeric/ })
})
