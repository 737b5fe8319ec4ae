import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { after, before, test } from 'node:test'
import { connect as tls, type TLSSocket } from 'node:tls'
import { WebSocket } from 'ws'
import { holdsOf } from '../../catalog/proxy.ts'
import { sql } from '../../catalog/sql.ts'
import { connect, DOMAIN, type Fixture, makeFixture, observer, PASSWORD, until } from '../../../test/proxy/fixture.ts'
import { encodeMessage, PASSWORD_MESSAGE } from '../messages.ts'
import type { Proxy } from '../proxy.ts'
import { encodeStartup, PROTOCOL_3_0 } from '../startup.ts'

/* What no driver sends, and what it would not show: bytes, headers, sizes, sessions that are used again. */

let fixture: Fixture
let proxy: Proxy
let active: string
let agent: Agent

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  active = await fixture.endpoint(await fixture.compute.start())
  const superuser = await observer(fixture)
  await superuser.query('grant create on schema public to alice')
  await superuser.end()
  agent = new Agent({ keepAlive: true, ca: readFileSync(fixture.caFile) })
})
after(async () => {
  agent.destroy()
  await fixture.close()
})

interface Asked {
  readonly method?: string
  readonly path?: string
  readonly headers?: Record<string, string | undefined>
  readonly body?: string | Buffer
  readonly signal?: AbortSignal
}

interface Answer {
  readonly status: number | undefined
  readonly headers: Record<string, string | string[] | undefined>
  readonly text: string
}

const uri = (endpoint = active, password = PASSWORD) =>
  `postgresql://alice:${encodeURIComponent(password)}@${endpoint}.${DOMAIN}/postgres`
const RAW = { 'neon-raw-text-output': 'true', 'neon-array-mode': 'true' }

function ask({ method = 'POST', path = '/sql', headers = {}, body = '', signal }: Asked): Promise<Answer> {
  const all = { 'neon-connection-string': uri(), ...headers }
  const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
  return new Promise((resolve, reject) => {
    const sent = request(
      { agent, host: '127.0.0.1', port: proxy.port, method, path, headers: given, ...(signal && { signal }) },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject)
        response.on('end', () =>
          resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(chunks).toString() }),
        )
      },
    )
    sent.on('error', reject).end(body)
  })
}

interface Parsed {
  readonly fields: { name: string; dataTypeID: number }[]
  readonly rows: unknown[]
  readonly command: string
  readonly rowCount: number | null
  readonly results: Parsed[]
  readonly message: string
  readonly code: string | null
}

async function json(body: unknown, headers: Record<string, string | undefined> = {}) {
  const { status, text } = await ask({ headers, body: JSON.stringify(body) })
  return { status, body: JSON.parse(text) as Parsed }
}

async function rows(query: string, headers?: Record<string, string>): Promise<unknown[]> {
  const { status, body } = await json({ query }, headers)
  assert.equal(status, 200, body.message)
  return body.rows
}

test('other paths and methods are answered in JSON, and any page may ask', async () => {
  const missing = await ask({ method: 'GET', path: '/' })
  assert.deepEqual([missing.status, (JSON.parse(missing.text) as Parsed).code], [404, null])
  const wrong = await ask({ method: 'PUT' })
  assert.deepEqual([wrong.status, wrong.headers['allow']], [405, 'OPTIONS, POST'])
  const preflight = await ask({ method: 'OPTIONS', path: '/sql?x' })
  assert.equal(preflight.status, 200)
  assert.match(String(preflight.headers['access-control-allow-headers']), /Neon-Connection-String/)
  for (const { headers } of [missing, wrong, preflight, await ask({ body: '{"query":"select 1"}' })])
    assert.deepEqual([headers['access-control-allow-origin'], !headers['neon-request-id']], ['*', false])
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
    [{ body: '{"query":"select 1"}', headers: { 'neon-connection-string': uri(active, 'wrong') } }, /password auth/],
    [{ body: '{"query":"select 1"}', headers: { 'neon-connection-string': uri('ep-none') } }, /password auth/],
  ]
  for (const [asked, message] of refused) {
    const { status, text } = await ask(asked)
    assert.equal(status, 400, text)
    assert.match((JSON.parse(text) as Parsed).message, message)
  }
})

test('rows come as texts or as what JSON has for them, as arrays or as objects', async () => {
  const query = `select 1::int2 as i, 9007199254740993 as l, 'NaN'::float8 as f, -1e30::float8 as g, true as b, null as n,
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

test('nobody notices that the compute was stopped since the last request, or while one is held', async () => {
  await rows('select 1')
  await fixture.compute.stop()
  await fixture.idle(active)
  assert.deepEqual(await rows('select 1 as n'), [{ n: 1 }])
  const { id } = await fixture.operation(active, 'suspend_compute')
  const holds = () => holdsOf(fixture.catalog, id)
  await fixture.hold(active, id)
  await until(async () => (await holds()).length === 1)
  const asking = rows('select 2 as n')
  await until(async () => (await holds()).some(({ woken }) => woken))
  await fixture.compute.stop()
  await fixture.idle(active)
  await fixture.hold(active, null)
  assert.deepEqual(await asking, [{ n: 2 }])
})

test('what is too large is refused on either way, and disturbs nothing', async () => {
  const large = 'x'.repeat(10 * 2 ** 20)
  const sent = await ask({ body: JSON.stringify({ query: 'select $1', params: [large] }) })
  assert.equal(sent.status, 413)
  const chunked = await ask({ headers: { 'transfer-encoding': 'chunked' }, body: `${large}x` })
  assert.equal(chunked.status, 413)
  const [most] = await rows(`select repeat('x', 10 * 1024 * 1024 - 6) as x`, RAW)
  assert.equal((most as string[])[0]?.length, 10 * 2 ** 20 - 6)
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
  const asking = () => json({ query: 'select 1' }, { 'neon-connection-string': uri(endpoint) })
  await fixture.catalog.rows(sql`update endpoint set disabled = true where id = ${endpoint}`)
  const { status, body } = await asking()
  assert.deepEqual([status, body.code], [400, '28000'])
  assert.match(body.message, /has been disabled/)
})

test('an endpoint that cannot be started is trouble of the server', async () => {
  const endpoint = await fixture.endpoint()
  const operation = await fixture.operation(endpoint, 'start_compute')
  await fixture.catalog.rows(
    sql`update operation set status = 'failed', error = 'no such disk', finished_at = now() where id = ${operation.id}`,
  )
  const broken = await fixture.proxy({ requestStart: async () => operation.id })
  const { port } = proxy
  proxy = broken
  const { status, body } = await json({ query: 'select 1' }, { 'neon-connection-string': uri(endpoint) })
  proxy = { ...broken, port }
  assert.deepEqual([status, body.code], [500, '08001'])
  await broken.stop()
})

/** Opens TLS as a client does that begins with it. */
async function directTls(...protocols: string[]): Promise<TLSSocket> {
  const socket = tls({
    host: '127.0.0.1',
    port: proxy.port,
    servername: `${active}.${DOMAIN}`,
    ca: readFileSync(fixture.caFile),
    ...(protocols.length > 0 && { ALPNProtocols: protocols }),
  })
  await once(socket, 'secureConnect')
  return socket
}

test('ALPN says which of the two protocols is spoken, and none means HTTP', async () => {
  const said = async (socket: TLSSocket, bytes: string | Buffer) => {
    socket.write(bytes)
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()
    return chunk.toString('latin1')
  }
  const startup = encodeStartup({ version: PROTOCOL_3_0, parameters: new Map([['user', 'alice']]) })
  assert.match(await said(await directTls('postgresql'), startup), /SCRAM-SHA-256/)
  const get = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'
  for (const protocols of [[], ['http/1.1'], ['h2', 'http/1.1']])
    assert.match(await said(await directTls(...protocols), get), /^HTTP\/1\.1 404/)
  assert.match(await said(await directTls(), startup), /^HTTP\/1\.1 400/)
  await assert.rejects(directTls('h2'))
})

test('who is slow with a request, or asks for another upgrade, is cut off', async () => {
  const slow = await directTls('http/1.1')
  slow.write('POST /sql HTTP/1.1\r\nhost: x\r\n')
  const chunks = (await slow.toArray()) as Buffer[]
  assert.match(Buffer.concat(chunks).toString(), /^HTTP\/1\.1 408/)
  const other = await directTls('http/1.1')
  other.write('GET /v2 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n')
  assert.match(Buffer.concat((await other.toArray()) as Buffer[]).toString(), /^HTTP\/1\.1 400/)
})

/** A WebSocket as a driver opens it, and all that it has sent. */
async function webSocket(path = '/v2', host = `${active}.${DOMAIN}`) {
  const socket = new WebSocket(`wss://127.0.0.1:${proxy.port}${path}`, { headers: { host }, agent })
  let received = ''
  socket.on('message', (data: Buffer) => (received += data.toString('latin1')))
  await once(socket, 'open')
  return { socket, closed: once(socket, 'close'), received: () => received }
}

const startupOf = (more: Record<string, string> = {}) =>
  encodeStartup({
    version: PROTOCOL_3_0,
    parameters: new Map(Object.entries({ user: 'alice', database: 'postgres', ...more })),
  })
const password = encodeMessage(PASSWORD_MESSAGE, Buffer.from(`${PASSWORD}\0`))
const query = encodeMessage(0x51, Buffer.from(`select 'here' || 'ami'\0`))
const SSL = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

test('a WebSocket takes everything at once or byte by byte, and says that it needs no TLS of its own', async () => {
  const whole = await webSocket()
  whole.socket.send(Buffer.concat([startupOf(), password, query]))
  await until(async () => whole.received().includes('hereami'))
  const slowly = await webSocket()
  for (const byte of Buffer.concat([SSL, startupOf(), password, query])) slowly.socket.send(Buffer.from([byte]))
  await until(async () => slowly.received().includes('hereami'))
  assert.equal(slowly.received()[0], 'N')
  for (const { socket, closed } of [whole, slowly]) {
    socket.send(encodeMessage(0x58))
    await closed
  }
})

test('a WebSocket says by its host, its address or its options which endpoint it means', async () => {
  const places: [string, string, Record<string, string>][] = [
    ['/', `${active}-pooler.${DOMAIN}:1`, {}],
    [`/v1?address=${active}.${DOMAIN}:5432`, 'localhost', {}],
    [`/v1?address=${active}.${DOMAIN}%3A5432`, `api.${DOMAIN}`, {}],
    ['/v2', 'localhost', { options: `endpoint=${active}` }],
  ]
  for (const [path, host, more] of places) {
    const { socket, received } = await webSocket(path, host)
    socket.send(Buffer.concat([startupOf(more), password, query]))
    await until(async () => received().includes('hereami'))
    socket.terminate()
  }
  const lost = await webSocket('/v2', 'localhost')
  lost.socket.send(Buffer.concat([startupOf(), password]))
  await lost.closed
  assert.match(lost.received(), /Endpoint ID is not specified/)
})

test('a text, a wrong password and garbage end a WebSocket', async () => {
  const spoken = await webSocket()
  spoken.socket.send('select 1')
  assert.equal((await spoken.closed)[0], 1003)
  const wrong = await webSocket()
  wrong.socket.send(Buffer.concat([startupOf(), encodeMessage(PASSWORD_MESSAGE, Buffer.from('wrong\0'))]))
  await wrong.closed
  assert.match(wrong.received(), /password authentication failed/)
  const garbage = await webSocket()
  garbage.socket.send(Buffer.alloc(100, 0xff))
  await garbage.closed
  assert.match(garbage.received(), /invalid length of startup packet/)
})

test('what a WebSocket asked for that is cut off ends, and Postgres beside it goes on', async () => {
  const { socket, received } = await webSocket()
  socket.send(Buffer.concat([startupOf({ application_name: 'cut' }), password]))
  await until(async () => received().endsWith('I'))
  const watching = await observer(fixture)
  const there = () => watching.query(`select 1 from pg_stat_activity where application_name = 'cut'`)
  assert.equal((await there()).rows.length, 1)
  socket.terminate()
  await until(async () => (await there()).rows.length === 0)
  await watching.end()
  const beside = await connect(proxy.port, active)
  assert.equal((await beside.query('select 1')).rowCount, 1)
  await beside.end()
})
