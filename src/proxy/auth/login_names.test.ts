import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loginNames } from './login_names.ts'

const latin1 = (text: string): string => Buffer.from(text).toString('latin1')

const namesOf = (role: string, parameters: Record<string, string> = {}) =>
  loginNames(role, { version: 3 << 16, parameters: new Map(Object.entries(parameters)) })

test('the database is that of the role unless given, and names are read as UTF-8', () => {
  assert.deepEqual(namesOf('ann'), { role: 'ann', database: 'ann', application: '' })
  assert.deepEqual(namesOf('ann', { database: latin1('bücher'), application_name: 'psql' }), {
    role: 'ann',
    database: 'bücher',
    application: 'psql',
  })
})

test('names that a person could not be shown as they are, are refused', () => {
  for (const name of ['a'.repeat(64), 'an\u202en', 'an\nn', 'an\ufffdn', 'a\u200bnn']) {
    assert.equal(namesOf(name), undefined)
    assert.equal(namesOf('ann', { database: latin1(name) }), undefined)
  }
  assert.equal(namesOf('ann', { database: '\xff' }), undefined)
})

test('an application name has marks in the place of invisible characters, and an end', () => {
  const names = namesOf('ann', { application_name: latin1(`psql\u202e\n${'x'.repeat(100)}`) })
  assert.match(names?.application ?? '', /^psql\ufffd\ufffdx+$/)
  assert.ok((names?.application.length ?? 0) <= 63)
})
