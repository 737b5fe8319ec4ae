import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf } from './error_code.ts'
import { loggedError, withoutSecrets } from './logged_error.ts'

const KEY = 'neap_0123456789abcdefghijABCDEFGHIJ0123456789xyz'

test('passwords in URLs and SQL, and API keys, are removed from texts', () => {
  const cases = {
    'postgresql://neap:hunter2@db/neap?x=1 is away': 'postgresql://neap:…@db/neap?x=1 is away',
    "create role r login password 'it''s secret' valid": "create role r login password '…' valid",
    "PASSWORD='hunter2'": "PASSWORD='…'",
    [`the key ${KEY} is unknown`]: 'the key neap_… is unknown',
    'http://127.0.0.1:7070/api/v2 and a@b': 'http://127.0.0.1:7070/api/v2 and a@b',
  }
  for (const [text, stripped] of Object.entries(cases)) assert.equal(withoutSecrets(text), stripped)
})

test('an error and its causes are logged with allowed fields only', () => {
  const url = 'postgresql://neap:hunter2@ nowhere/neap'
  const cause = Object.assign(new TypeError(`Invalid URL: ${url}`), { code: 'ERR_INVALID_URL', input: url })
  const error = Object.assign(new Error('it failed', { cause }), {
    config: { password: 'hunter2' },
    path: '/some/file',
  })
  const logged = loggedError(error) as Record<string, unknown>
  assert.ok(!JSON.stringify(logged).includes('hunter2'))
  assert.equal(logged['path'], '/some/file')
  assert.deepEqual(Object.keys(logged), ['type', 'code', 'message', 'stack', 'path', 'cause'])
})

test('the row that violated a constraint is not logged', () => {
  const detail = 'Failing row contains (alice, SCRAM-SHA-256$4096:…).'
  const broken = Object.assign(new Error('null value'), { code: '23502', detail, table: 'role' })
  assert.ok(!JSON.stringify(loggedError(broken)).includes('Failing row'))
  const full = Object.assign(new Error('could not extend file'), { code: '53100', detail: 'No space left.' })
  assert.equal((loggedError(full) as { detail?: string }).detail, 'No space left.')
})

test('the kind of an error is its code, else the code of its cause, else its name', () => {
  const cause = Object.assign(new Error('full'), { code: 'ENOSPC' })
  assert.equal(codeOf(new Error('could not copy', { cause })), 'ENOSPC')
  assert.equal(codeOf(Object.assign(new Error('no'), { code: '53300' })), '53300')
  assert.equal(codeOf(Object.assign(new Error('no'), { code: 'of every kind: 17' })), 'Error')
  assert.equal(codeOf(new RangeError('no')), 'RangeError')
  assert.equal(codeOf('thrown text'), 'unknown')
})

test('a long text is truncated, and a secret across the cut is removed whole', () => {
  const text = withoutSecrets(`${'x'.repeat(3_990)} password 'hunter2 and more' ${'y'.repeat(2 ** 20)}`)
  assert.equal(text.length, 4_000)
  assert.ok(!withoutSecrets(`${'x'.repeat(3_985)} password 'hunter2' ${'y'.repeat(9_000)}`).includes('hunter'))
})
