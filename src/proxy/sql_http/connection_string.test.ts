import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConnectionString } from './connection_string.ts'

const parse = (text: string) => {
  const { serverName, password, parameters } = parseConnectionString(text, 'local.localhost')
  return { serverName, password, ...Object.fromEntries(parameters) }
}

test('the endpoint is the first label of the host, or said by options, and its pooled host is used', () => {
  const said = { user: 'a', password: 'p', client_encoding: 'UTF8' }
  const serverName = 'ep-x-pooler.local.localhost'
  assert.deepEqual(parse('postgresql://a:p@ep-x.local.localhost:7071'), { ...said, serverName })
  assert.deepEqual(parse('postgres://a:p@EP-X-pooler.local.localhost/db?sslmode=require'), {
    ...said,
    serverName,
    database: 'db',
  })
  assert.deepEqual(parse('postgres://a:p@localhost/db?options=endpoint%3Dep-x-pooler%20-c%20a%3Db&sslmode=require'), {
    ...said,
    serverName,
    database: 'db',
    options: '-c a=b',
  })
  assert.deepEqual(parse('postgresql://a:p@api.local.localhost/?application_name=x'), {
    ...said,
    serverName: '',
    application_name: 'x',
  })
  assert.deepEqual(parse('postgresql://%C3%A4%40:%25%3A@ep-x.local.localhost/%E2%82%AC'), {
    serverName,
    user: 'ä@',
    password: '%:',
    database: '€',
    client_encoding: 'UTF8',
  })
})

test('what cannot be used is refused with a reason', () => {
  const refused: [string, RegExp][] = [
    ['nonsense', /must be a URI/],
    ['postgresql://a:%zz@ep-x.local.localhost/db', /must be a URI/],
    ['https://a:p@ep-x.local.localhost/db', /must begin with postgresql:/],
    ['postgresql://ep-x.local.localhost/db', /names no user/],
    ['postgresql://a@ep-x.local.localhost/db', /has no password/],
    ['postgresql://a%00database:p@ep-x.local.localhost/db', /holds a NUL/],
    ['postgresql://a:p%00@ep-x.local.localhost/db', /holds a NUL/],
    ['postgresql://a:p@ep-x.local.localhost/d%00b', /holds a NUL/],
    ['postgresql://a:p@ep-x.local.localhost/db?options=x%00y', /holds a NUL/],
    ['postgresql://a:p@ep-x.local.localhost/db?options=endpoint%3Dep-y', /Inconsistent project name/],
    ['postgresql://a:p@localhost/db?options=endpoint%3Dep_y', /must contain only alphanumeric/],
  ]
  for (const [text, message] of refused)
    assert.throws(
      () => parse(text),
      (error: Error & { status?: number }) => {
        assert.equal(error.status, 400, text)
        assert.match(error.message, message)
        return true
      },
    )
})
