import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Fixture, makeFixture, observer, until } from '../../../test/proxy/fixture.ts'
import {
  type Asked,
  type Parsed,
  RAW,
  sqlOverHttp,
  type SqlOverHttp,
  uriOf,
} from '../../../test/proxy/sql_over_http.ts'
import { pausesOf } from '../../catalog/proxy.ts'
import { sql } from '../../catalog/sql.ts'

/* Requests that drivers do not send, and results that they do not show: headers, types, sizes, reuse of sessions. */

let fixture: Fixture
let active: string
let agent: SqlOverHttp['agent']
let ask: SqlOverHttp['ask']
let json: SqlOverHttp['json']
let rows: SqlOverHttp['rows']

before(async () => {
  fixture = await makeFixture()
  active = await fixture.endpoint(await fixture.compute.start())
  const superuser = await observer(fixture)
  await superuser.query('grant create on schema public to alice')
  await superuser.end()
  ;({ agent, ask, json, rows } = sqlOverHttp(fixture, await fixture.proxy(), active))
})
after(async () => {
  agent.destroy()
  await fixture.close()
})

test('what is not a request is refused with a reason', async () => {
  const refused: [Asked, RegExp][] = [
    [{ headers: { 'neon-connection-string': undefined } }, /Neon-Connection-String is missing/],
    [{ headers: { 'neon-connection-string': 'nonsense' } }, /must be a URI/],
    [{ headers: { authorization: 'Bearer x' } }, /Tokens are not taken/],
    [{ body: '' }, /not JSON/],
    [{ body: '{"query":' }, /not JSON/],
    [{ body: Buffer.from([0x22, 0xff, 0x22]) }, /not JSON in UTF-8/],
    [{ body: '[]' }, /must be \{"query"/],
    [{ body: '{"query":1}' }, /must be \{"query"/],
    [{ body: '{"query":"select 1","params":{}}' }, /must be an array/],
    [{ body: '{"query":"select 1","arrayMode":1}' }, /true or false/],
    [{ body: '{"query":"select \\u0000"}' }, /holds a NUL/],
    [{ body: '{"queries":[{"query":"select 1"},{}]}' }, /queries\[1\]/],
    [{ body: JSON.stringify({ query: '', params: Array(65_536).fill(0) }) }, /more than 65535/],
    [{ body: '{"queries":[]}', headers: { 'neon-batch-isolation-level': 'Best' } }, /must be one of ReadUncommitted/],
    [{ body: '{"query":"select 1"}', headers: { 'neon-connection-string': uriOf(active, 'wrong') } }, /password auth/],
    [{ body: '{"query":"select 1"}', headers: { 'neon-connection-string': uriOf('ep-none') } }, /password auth/],
  ]
  for (const [asked, message] of refused) {
    const { status, text } = await ask(asked)
    assert.equal(status, 400, text)
    assert.match((JSON.parse(text) as Parsed).message, message)
  }
})

test('rows come as texts or as what JSON has for them, as arrays or as objects', async () => {
  const query = `select 1::int2 as i, 9007199254740993 as l, 'NaN'::float8 as f, -1e30::float8 as g,
    true as b, null as n,
    '{"a": 12345678901234567890}'::json as j, array[[1,null],[3,4]] as a, array['a"b', null, '{,}', ''] as t,
    '[2:3]={t,f}'::bool[] as o, '\\x00ff'::bytea as y, '€ \u{1f600}' as u`
  const exactly = await ask({ body: JSON.stringify({ query }) })
  assert.ok(exactly.text.includes('"j":{"a": 12345678901234567890}'), exactly.text)
  const { body } = await json({ query: query.replace(/12345678901234567890/, '1') })
  assert.deepEqual(body.rows, [
    {
      i: 1,
      l: '9007199254740993',
      f: 'NaN',
      g: -1e30,
      b: true,
      n: null,
      j: { a: 1 },
      a: [
        [1, null],
        [3, 4],
      ],
      t: ['a"b', null, '{,}', ''],
      o: [true, false],
      y: '\\x00ff',
      u: '€ \u{1f600}',
    },
  ])
  assert.deepEqual(await rows(`select 1 as a, array[1] as b, null as c`, RAW), [['1', '{1}', null]])
  const own = await json({ queries: [{ query: 'select 1', arrayMode: true }, { query: 'select 2 as b' }] })
  assert.deepEqual(
    own.body.results.map((each) => each.rows),
    [[[1]], [{ b: 2 }]],
  )
})

test('every array type of Postgres that commas separate is known as one', async () => {
  const types = await rows(`
    select typarray::regtype::text as name from pg_type
    where typarray <> 0 and typdelim = ',' and typtype in ('b', 'r', 'm') and oid < 16384 order by oid`)
  for (const { name } of types as { name: string }[])
    assert.deepEqual(await rows(`select '{NULL}'::${name} as a`), [{ a: [null] }], name)
})

test('parameters are what JSON says, and unknown to SQL', async () => {
  const params = [null, 'x; select 1', 9007199254740993n, true, { a: 1 }, [1, null, 'a"'], `\\x00`]
  const body = JSON.stringify(
    {
      query: 'select $1::text, $2::text, $3::int8, $4::bool, $5::jsonb, $6::text[], $7::bytea',
      params,
    },
    (_key, value: unknown) => (typeof value === 'bigint' ? 'BIG' : value),
  ).replace('"BIG"', '9007199254740993')
  const { text } = await ask({ body, headers: RAW })
  assert.deepEqual((JSON.parse(text) as Parsed).rows, [
    [null, 'x; select 1', '9007199254740993', 't', '{"a": 1}', '{1,NULL,"a\\""}', '\\x00'],
  ])
})

test('what was done is said as Postgres says it', async () => {
  const done: [string, string, number | null][] = [
    ['create table done (n int)', 'CREATE', null],
    ['insert into done select generate_series(1, 3)', 'INSERT', 3],
    ['update done set n = n where n > 1', 'UPDATE', 2],
    ['table done', 'SELECT', 3],
    ['', '', null],
    ['drop table done', 'DROP', null],
  ]
  for (const [query, command, rowCount] of done) {
    const { body } = await json({ query })
    assert.deepEqual([body.command, body.rowCount], [command, rowCount], query)
  }
})

test('an error has its fields, and the next request is not touched by it', async () => {
  const two = await json({ query: 'select 1; select 2' })
  assert.deepEqual([two.status, two.body.code], [400, '42601'])
  const { status, body } = await json({ query: 'select nothing' })
  assert.equal(status, 400)
  const { message: _message, ...more } = body as unknown as Record<string, string | null>
  assert.deepEqual(
    { ...more, file: null, line: null, routine: null },
    {
      code: '42703',
      detail: null,
      hint: null,
      position: '8',
      internalPosition: null,
      internalQuery: null,
      severity: 'ERROR',
      where: null,
      table: null,
      column: null,
      schema: null,
      dataType: null,
      constraint: null,
      file: null,
      line: null,
      routine: null,
    },
  )
  assert.deepEqual(await rows('select 1 as n'), [{ n: 1 }])
  const copy = await json({ query: 'copy (select 1) to stdout' })
  assert.deepEqual([copy.status, copy.body.code], [400, '0A000'])
  const copyIn = await json({ query: 'copy pg_class from stdin' })
  assert.equal(copyIn.status, 400)
  assert.deepEqual(await rows('select 1 as n'), [{ n: 1 }])
})

test('a batch is one transaction of the asked kind, and all of it is undone where one of it fails', async () => {
  const kind = `select current_setting('transaction_isolation') as i, current_setting('transaction_read_only') as r,
    current_setting('transaction_deferrable') as d`
  const asked = {
    'neon-batch-isolation-level': 'RepeatableRead',
    'neon-batch-read-only': 'true',
    'neon-batch-deferrable': 'true',
  }
  const { body } = await json({ queries: [{ query: kind }, { query: 'select 2 as n' }] }, asked)
  assert.deepEqual(
    body.results.map((each) => each.rows),
    [[{ i: 'repeatable read', r: 'on', d: 'on' }], [{ n: 2 }]],
  )
  const queries = ['create table undone (n int)', 'select 1/0', 'create table never (n int)']
  const failed = await json({ queries: queries.map((query) => ({ query })) })
  assert.deepEqual([failed.status, failed.body.code], [400, '22012'])
  assert.deepEqual(await rows(`select to_regclass('undone') as a, to_regclass('never') as b`), [{ a: null, b: null }])
  assert.deepEqual((await json({ queries: [] })).body.results, [])
})

test('sessions are used again, but neither a transaction nor a setting is left in one', async () => {
  const pid = async () => (await rows('select pg_backend_pid() as pid'))[0]
  const first = await pid()
  assert.deepEqual(await pid(), first)
  await rows('begin')
  assert.deepEqual(await rows('select 1 as n'), [{ n: 1 }])
  const watching = await observer(fixture)
  await until(async () => {
    const { rows: open } = await watching.query(
      `select 1 from pg_stat_activity where usename = 'alice' and state <> 'idle'`,
    )
    return open.length === 0
  })
  await watching.end()
  await rows(`set work_mem = '123MB'`)
  assert.notDeepEqual(await rows(`select current_setting('work_mem') as w`), [{ w: '123MB' }])
})

test('many at once share few sessions', async () => {
  const pids = await Promise.all(Array.from({ length: 60 }, () => rows('select pg_backend_pid() as pid')))
  const distinct = new Set(pids.flat().map((row) => (row as { pid: number }).pid))
  assert.ok(distinct.size < 60, `${distinct.size} sessions for 60 requests`)
})

test('who hangs up while it waits for a session takes none away from the others', async () => {
  const hangUp = new AbortController()
  const asking = Array.from({ length: 60 }, (_, index) =>
    ask({ body: '{"query":"select 1"}', ...(index % 2 && { signal: hangUp.signal }) }).catch(() => undefined),
  )
  await Promise.race(asking)
  hangUp.abort()
  const answers = await Promise.all(asking)
  assert.ok(answers.every((answer, index) => index % 2 || answer?.status === 200))
  assert.deepEqual(await rows('select 1 as n'), [{ n: 1 }])
})

test('nobody notices that the compute was stopped since the last request, or while one is held', async () => {
  await rows('select 1')
  await fixture.compute.stop()
  await fixture.idle(active)
  assert.deepEqual(await rows('select 1 as n'), [{ n: 1 }])
  const { id } = await fixture.operation(active, 'suspend_compute')
  const holds = () => pausesOf(fixture.catalog, id)
  await fixture.pause(active, id)
  await until(async () => (await holds()).length === 1)
  const asking = rows('select 2 as n')
  await until(async () => (await holds()).some(({ woken }) => woken))
  await fixture.compute.stop()
  await fixture.idle(active)
  await fixture.pause(active, null)
  assert.deepEqual(await asking, [{ n: 2 }])
})

test('what is too large is refused on either way, and disturbs nothing', async () => {
  const large = 'x'.repeat(10 * 2 ** 20)
  const sent = await ask({ body: JSON.stringify({ query: 'select $1', params: [large] }) })
  assert.equal(sent.status, 413)
  const chunked = await ask({ headers: { 'transfer-encoding': 'chunked' }, body: `${large}x` })
  assert.equal(chunked.status, 413)
  const [most] = await rows(`select repeat('x', 10 * 1024 * 1024 - 11) as x`, RAW)
  assert.equal((most as string[])[0]?.length, 10 * 2 ** 20 - 11)
  for (const query of [
    `select repeat('x', 10 * 1024 * 1024)`,
    `select repeat('x', 1000) from pg_class a, pg_class b, pg_class c`,
  ])
    assert.equal((await json({ query })).status, 507)
  const watching = await observer(fixture)
  await until(async () => {
    const { rows: busy } = await watching.query(
      `select 1 from pg_stat_activity where query like '%pg_class c%' and usename = 'alice' and state = 'active'`,
    )
    return busy.length === 0
  })
  await watching.end()
  assert.deepEqual(await rows('select 1 as n'), [{ n: 1 }])
})

test('what a client asked for that hangs up is cancelled', async () => {
  const hangUp = new AbortController()
  const asking = ask({ body: JSON.stringify({ query: 'select pg_sleep(600)' }), signal: hangUp.signal })
  const watching = await observer(fixture)
  const sleeping = () => watching.query(`select 1 from pg_stat_activity where wait_event = 'PgSleep'`)
  await until(async () => (await sleeping()).rows.length > 0)
  hangUp.abort()
  await assert.rejects(asking)
  await until(async () => (await sleeping()).rows.length === 0)
  await watching.end()
})

test('an endpoint that is disabled, or lets the address not in, says so', async () => {
  const endpoint = await fixture.endpoint()
  const asking = () => json({ query: 'select 1' }, { 'neon-connection-string': uriOf(endpoint) })
  await fixture.catalog.rows(sql`update endpoint set disabled = true where id = ${endpoint}`)
  const { status, body } = await asking()
  assert.deepEqual([status, body.code], [400, '28000'])
  assert.match(body.message, /has been disabled/)
  await fixture.catalog.rows(sql`update endpoint set disabled = false where id = ${endpoint}`)
  await fixture.catalog.rows(
    sql`update project set settings = ${{ allowed_ips: { ips: ['10.0.0.1'] } }} where id = ${endpoint}`,
  )
  assert.match((await asking()).body.message, /This IP address 127\.0\.0\.1 is not allowed/)
})

test('an endpoint that cannot be started is trouble of the server', async () => {
  const endpoint = await fixture.endpoint()
  const operation = await fixture.operation(endpoint, 'start_compute')
  await fixture.catalog.rows(
    sql`update operation set status = 'failed', error = 'no such disk', finished_at = now() where id = ${operation.id}`,
  )
  const broken = await fixture.proxy({ requestStart: async () => operation.id })
  const over = sqlOverHttp(fixture, broken, endpoint)
  const { status, body } = await over.json({ query: 'select 1' })
  over.agent.destroy()
  assert.deepEqual([status, body.code], [500, '08001'])
  await broken.stop()
})
