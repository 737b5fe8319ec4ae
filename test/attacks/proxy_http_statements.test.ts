import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { parseRequest } from '../../src/proxy/sql_http/request.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { type Fixture, makeFixture } from '../proxy/fixture.ts'
import { sqlOverHttp, type SqlOverHttp } from '../proxy/sql_over_http.ts'

/*
 * The work that a logged-in tenant causes in the proxy with one HTTP body of at most 10 MiB: all tenants share the
 * process.
 */

let fixture: Fixture
let proxy: Proxy
let hostile: SqlOverHttp
let victim: string

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  const pid = await fixture.compute.start()
  hostile = sqlOverHttp(fixture, proxy, await fixture.endpoint(pid))
  victim = await fixture.endpoint(pid)
})
after(async () => {
  hostile?.agent.destroy()
  await fixture?.close()
})

test('a batch has a bounded number of statements', async () => {
  const batch = (count: number) => ({ queries: Array.from({ length: count }, () => ({ query: '' })) })
  const { status, body } = await hostile.json(batch(100_000))
  assert.equal(status, 400)
  assert.match(body.message, /"queries" has more than 10000 elements/)
  assert.equal((await hostile.json(batch(1_000))).body.results.length, 1_000)
})

test('row descriptions count toward the size of an answer', async () => {
  const wide = `select ${Array(1_600).fill('1').join(',')} limit 0`
  const { status, body } = await hostile.json({ queries: Array.from({ length: 500 }, () => ({ query: wide })) })
  assert.equal(status, 507, body.message)
})

test('a body that is nested too deeply is refused', async () => {
  for (const value of ['1', '1.5'])
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const depth = 200_000
      const body = `{"query":"select 1","params":[${open.repeat(depth)}${value}${close.repeat(depth)}]}`
      const answer = await hostile.ask({ body })
      assert.equal(answer.status, 400, answer.text)
      assert.match(answer.text, /nested too deeply/)
    }
})

test('an unknown isolation level is refused', async () => {
  for (const level of ['constructor', '__proto__', 'Serializable; drop table x']) {
    const { status, body } = await hostile.json({ queries: [] }, { 'neon-batch-isolation-level': level })
    assert.equal(status, 400)
    assert.match(body.message, /Neon-Batch-Isolation-Level must be one of/)
  }
})

test('parsing a large body delays no other client', async () => {
  const values = Array(1_000_000).fill('1.5').join(',')
  const body = `{"query":"select cardinality($1::float8[])::int as n","params":[[${values}]]}`
  const began = performance.now()
  parseRequest({}, Buffer.from(body))
  const alone = performance.now() - began
  const over = sqlOverHttp(fixture, proxy, victim)
  let answered = false
  const asked = hostile.ask({ body }).finally(() => (answered = true))
  let longest = 0
  while (!answered) {
    const since = performance.now()
    assert.deepEqual(await over.rows('select 1 as n'), [{ n: 1 }])
    longest = Math.max(longest, performance.now() - since)
  }
  over.agent.destroy()
  const { status, text } = await asked
  assert.equal(status, 200, text)
  assert.match(text, /1000000/)
  assert.ok(longest < alone / 2, `another waited ${longest} ms; to parse the body takes ${alone} ms`)
})

test('a large malformed body is refused with the reason, as a small one is', async () => {
  const { status, body } = await hostile.json({ query: `select '${'x'.repeat(20_000)}'`, params: 'none' })
  assert.equal(status, 400)
  assert.match(body.message, /"params" of the body must be an array/)
})
