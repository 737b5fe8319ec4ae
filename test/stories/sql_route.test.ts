import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place, settled, suspend } from '../project.ts'
import { keyOf, otherAccount, owner } from '../surface/account.ts'
import { catalogQuery } from '../admin.ts'

/* SQL by the API: as the role, streamed, bounded, cancelled and audited. */

let neap: Neap
let place: Place
let role: string
let database: string

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  const uri = new URL(place.uri)
  role = decodeURIComponent(uri.username)
  database = uri.pathname.slice(1)
})
after(() => neap?.stop())

interface Event {
  readonly type: string
  readonly [field: string]: unknown
}

interface Asked {
  readonly key?: string
  readonly signal?: AbortSignal
  readonly [field: string]: unknown
}

function ask(sql: string, { key = neap.ready.api_key ?? '', signal, ...more }: Asked = {}): Promise<Response> {
  return fetch(`${neap.ready.api_url}/projects/${place.project_id}/branches/${place.branch_id}/sql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ database_name: database, role_name: role, sql, ...more }),
    ...(signal && { signal }),
  })
}

const eventsIn = (text: string): Event[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Event)

/** The events of an answer, without times. */
async function run(sql: string, more: Asked = {}): Promise<Event[]> {
  const answer = await ask(sql, more)
  const text = await answer.text()
  assert.equal(answer.status, 200, text)
  assert.equal(answer.headers.get('content-type'), 'application/x-ndjson')
  return eventsIn(text).map((event) => withoutTime(event))
}

function withoutTime({ ...event }: Event & { ms?: number }): Event {
  delete event.ms
  return event
}

const ofType = (events: readonly Event[], type: string) => events.filter((event) => event.type === type)
const waiting = () =>
  query(neap, place.uri, `select from pg_stat_activity where application_name = 'Neap SQL' and state <> 'idle'`)

test('several statements are answered in order, with notices and texts as Postgres has them', async () => {
  await suspend(neap, place)
  const events = await run(`select 1 as "<b>a</b>", null as n, 'ä😀' as t;
    do $$ begin raise notice 'seen %', 7; end $$; create table t (id int primary key); insert into t values (1), (2)`)
  assert.deepEqual(
    events.map(({ type }) => type),
    ['begin', 'columns', 'rows', 'complete', 'notice', 'complete', 'complete', 'complete', 'end'],
  )
  assert.deepEqual(
    ((events[1]?.['columns'] ?? []) as { name: string; type_oid: number }[]).map(({ name, type_oid }) => [
      name,
      type_oid,
    ]),
    [
      ['<b>a</b>', 23],
      ['n', 25],
      ['t', 25],
    ],
  )
  assert.deepEqual(events[2]?.['rows'], [['1', null, 'ä😀']])
  assert.deepEqual(events[3], { type: 'complete', tag: 'SELECT 1', rows: 1, truncated: false })
  assert.equal(events[4]?.['message'], 'seen 7')
  assert.equal(events[7]?.['tag'], 'INSERT 0 2')
  await settled(neap, place, 'active')
})

test('an error has its place, and undoes the statements of its text', async () => {
  const events = await run(`insert into t values (3); select '😀', nowhere from t`)
  const [error] = ofType(events, 'error')
  assert.deepEqual([error?.['code'], error?.['position']], ['42703', 39])
  assert.deepEqual(ofType(await run('select count(*) from t'), 'rows')[0]?.['rows'], [['2']])
})

test('it is the role, not a superuser, and read-only where that is asked', async () => {
  const [who] = ofType(await run('select session_user, current_setting($$is_superuser$$)'), 'rows')
  assert.deepEqual(who?.['rows'], [[role, 'off']])
  const [refused] = ofType(await run('insert into t values (4)', { read_only: true }), 'error')
  assert.equal(refused?.['code'], '25006')
  const [denied] = ofType(await run('select pg_read_file($$/etc/passwd$$)'), 'error')
  assert.equal(denied?.['code'], '42501')
})

test('rows over a limit are left out and counted, while the statements take effect', async () => {
  const events = await run('select generate_series(1, 1000); insert into t values (5)', { max_rows: 10 })
  assert.equal(ofType(events, 'rows').flatMap(({ rows }) => rows as unknown[]).length, 10)
  assert.deepEqual(
    ofType(events, 'complete').map(({ rows, truncated, tag }) => [rows, truncated, tag]),
    [
      [1000, true, 'SELECT 1000'],
      [0, false, 'INSERT 0 1'],
    ],
  )
  const wide = await run(`select repeat('x', 5000000); select repeat('y', 2000)`, { max_bytes: 6_000_000 })
  assert.deepEqual(
    ofType(wide, 'complete').map(({ truncated }) => truncated),
    [true, false],
  )
  const [copy] = ofType(await run('copy t from stdin'), 'error')
  assert.match(String(copy?.['message']), /takes its data from a client like psql/)
  const [out] = ofType(await run('copy t to stdout'), 'complete')
  assert.deepEqual([out?.['tag'], out?.['truncated']], ['COPY 3', true])
})

test('a million rows neither fill the memory of the API nor keep others waiting', async () => {
  const memory = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${neap.part('api')}/status`, 'utf8'))?.[1])
  await run('select 1')
  const atFirst = memory()
  const answer = await ask(`select i, md5(i::text), repeat('x', 60) from generate_series(1, 1000000) i`, {
    max_rows: 1_000_000,
    max_bytes: 512 * 2 ** 20,
    timeout_seconds: 600,
  })
  let lines = ''
  let bytes = 0
  let answered = 0
  const more = (async () => {
    while (bytes >= 0) {
      await neap.call('GET /projects', {})
      answered++
    }
  })()
  for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    lines = (lines + Buffer.from(chunk.subarray(-400)).toString('latin1')).slice(-400)
  }
  assert.ok(bytes > 100_000_000)
  bytes = -1
  await more
  assert.match(lines, /"tag":"SELECT 1000000","rows":1000000,"truncated":false/)
  assert.ok(answered > 20, `${answered} requests were answered meanwhile`)
  assert.ok(memory() - atFirst < 150_000, `the API grew by ${memory() - atFirst} KiB`)
})

test('a client that reads nothing holds the query back, and one that leaves cancels it', async () => {
  const leave = new AbortController()
  const answer = await ask(`select repeat('x', 1000) from generate_series(1, 10000000)`, {
    signal: leave.signal,
    max_bytes: 512 * 2 ** 20,
    max_rows: 1_000_000,
  })
  assert.equal(answer.status, 200)
  await until(
    'the query to be held back',
    async () =>
      (await query(neap, place.uri, `select from pg_stat_activity where wait_event = 'ClientWrite'`)).length > 0,
  )
  leave.abort()
  await until('the end of the query', async () => (await waiting()).length === 0)
})

test('the time limit holds whatever the text sets', async () => {
  const events = await run('set statement_timeout = 0; select pg_sleep(600)', { timeout_seconds: 1 })
  assert.equal(events.at(-1)?.['message'], 'Stopped after 1 s, the time limit of this request.')
  await until('the end of the query', async () => (await waiting()).length === 0)
})

test('four run at once for a project', async () => {
  const leave = new AbortController()
  const four = await Promise.all(
    [1, 2, 3, 4].map(() => ask('select pg_sleep(600)', { signal: leave.signal, timeout_seconds: 600 })),
  )
  assert.deepEqual(
    four.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  const fifth = await ask('select 1')
  assert.equal(fifth.status, 429)
  assert.match(await fifth.text(), /4 texts of SQL are running for this/)
  leave.abort()
  await until('a free place', async () => (await ask('select 1')).status === 200)
})

test('a revoked key ends what it has under way', async () => {
  const { account_id } = await owner(neap)
  const key = await keyOf(neap, account_id, 'write')
  const answer = await ask(`select pg_sleep(0.1), repeat('x', 20000) from generate_series(1, 6000)`, { key })
  assert.equal(answer.status, 200)
  await neap.call('GET /api_keys', {}).then(async (keys) => {
    const [{ id } = { id: 0 }] = keys.filter(({ name }) => name === 'write key')
    await neap.call('DELETE /api_keys/:key_id', { params: { key_id: id } })
  })
  assert.doesNotMatch(await answer.text(), /"end"/)
})

test('others are refused: a key that reads, another account, an unknown role, database or address', async () => {
  const { account_id } = await owner(neap)
  const stranger = await otherAccount(neap, 'stranger')
  const answers = await Promise.all([
    ask('select 1', { key: await keyOf(neap, account_id, 'read'), read_only: true }),
    ask('select 1', { key: stranger.key }),
    ask('select 1', { role_name: 'nobody' }),
    ask('select 1', { database_name: 'nowhere' }),
    ask('select 1', { role_name: 'neap_admin' }),
    ask('select 1', { database_name: 'neap' }),
    ask('select 1', { max_rows: -1 }),
    ask('x'.repeat(200_000)),
    ask('select 1\0'),
  ])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [403, 404, 404, 404, 404, 422, 400, 400, 400],
  )
  const settings = (ips: string[]) =>
    neap.call('PATCH /projects/:project_id', {
      params: { project_id: place.project_id },
      body: { project: { settings: { allowed_ips: { ips } } } },
    })
  await settings(['192.0.2.1'])
  const refused = await ask('select 1')
  assert.equal(refused.status, 422)
  assert.match(await refused.text(), /127\.0\.0\.1 is not in the allowed addresses/)
  await settings([])
})

test('the audit list has the fact, not the text; the catalog holds no transaction meanwhile', async () => {
  const leave = new AbortController()
  await ask(`select 'a secret', pg_sleep(600)`, { signal: leave.signal })
  const open = await catalogQuery(neap, `select from pg_stat_activity where state like 'idle in transaction%'`)
  assert.equal(open.length, 0)
  leave.abort()
  const { audit } = await neap.call('GET /audit', { query: { limit: 1 } })
  assert.deepEqual([audit[0]?.action, audit[0]?.status], ['POST /projects/:project_id/branches/:branch_id/sql', 200])
  assert.doesNotMatch(JSON.stringify(audit), /secret'/)
  assert.doesNotMatch(neap.stderr(), /a secret/)
  await until('the end of the query', async () => (await waiting()).length === 0)
})
