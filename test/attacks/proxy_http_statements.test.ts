import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { parseRequest } from '../../src/proxy/http/request.ts'
import { type Fixture, makeFixture } from '../proxy/fixture.ts'
import { sqlOverHttp, type SqlOverHttp } from '../proxy/sql_over_http.ts'

/* What a tenant, logged in over HTTP, makes the proxy do for one body of at most 10 MiB: it is one process for all. */

let fixture: Fixture
let over: SqlOverHttp

before(async () => {
  fixture = await makeFixture()
  over = sqlOverHttp(fixture, await fixture.proxy(), await fixture.endpoint(await fixture.compute.start()))
})
after(async () => {
  over?.agent.destroy()
  await fixture?.close()
})

test('a batch has a bounded number of statements', async () => {
  const batch = (count: number) => ({ queries: Array.from({ length: count }, () => ({ query: '' })) })
  const { status, body } = await over.json(batch(100_000))
  assert.equal(status, 400)
  assert.match(body.message, /"queries" has more than 10000 elements/)
  assert.equal((await over.json(batch(1_000))).body.results.length, 1_000)
})

test('what describes rows counts as part of an answer', async () => {
  const wide = `select ${Array(1_600).fill('1').join(',')} limit 0`
  const { status, body } = await over.json({ queries: Array.from({ length: 500 }, () => ({ query: wide })) })
  assert.equal(status, 507, body.message)
})

test('a body that is nested too deeply is refused, not a failure of the proxy', async () => {
  for (const value of ['1', '1.5'])
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const depth = 200_000
      const body = `{"query":"select 1","params":[${open.repeat(depth)}${value}${close.repeat(depth)}]}`
      const answer = await over.ask({ body })
      assert.equal(answer.status, 400, answer.text)
      assert.match(answer.text, /nested too deeply/)
    }
})

test('an isolation level is one of the four', async () => {
  for (const level of ['constructor', '__proto__', 'Serializable; drop table x']) {
    const { status, body } = await over.json({ queries: [] }, { 'neon-batch-isolation-level': level })
    assert.equal(status, 400)
    assert.match(body.message, /Neon-Batch-Isolation-Level must be one of/)
  }
})

test('numbers with fractions cost about what others cost', { todo: 'they are parsed twice, on the one thread' }, () => {
  const cost = (number: string): number => {
    const body = Buffer.from(`{"query":"select $1","params":[[${Array(500_000).fill(number).join(',')}]]}`)
    const began = process.cpuUsage()
    parseRequest({}, body)
    const { user, system } = process.cpuUsage(began)
    return user + system
  }
  cost('12')
  const [whole, fractions] = [cost('12'), cost('1.5')]
  assert.ok(fractions < 3 * whole, `${fractions} µs, as against ${whole} µs`)
})
