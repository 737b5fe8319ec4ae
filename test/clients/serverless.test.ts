import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { Client, neon, neonConfig, NeonDbError, Pool } from '@neondatabase/serverless'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, endpointOf, firstPlace, type Place, settled, suspend } from '../project.ts'

/* The serverless driver, unmodified, with only the port configured: over HTTP and over WebSocket. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  setDefaultCACertificates([...getCACertificates(), readFileSync(neap.ready.ca_file, 'utf8')])
  neonConfig.fetchEndpoint = (host, port) => `https://${host}:${port}/sql`
  neonConfig.wsProxy = (host, port) => `${host}:${port}/v2`
  place = await firstPlace(neap)
})

after(async () => {
  await neap?.stop()
})

/** The connection string with the endpoint's name as its host, as it is where such names resolve. */
const named = (uri: string) => uri.replace('@localhost', `@${place.endpoint_id}.local.localhost`)

test('queries by template and by function return objects, arrays and full results', async () => {
  const sql = neon(place.uri)
  const name = `O'Neil "x" \u{1f30a}`
  assert.deepEqual(await sql`select ${name} as name, ${1} + 1 as n, ${null}::text as nothing`, [
    { name, n: 2, nothing: null },
  ])
  assert.deepEqual(await sql.query('select $1::int8 as big, $2::bool as yes', ['9007199254740993', true]), [
    { big: '9007199254740993', yes: true },
  ])
  assert.deepEqual(await sql.query('select $1::int, 2', [1], { arrayMode: true }), [[1, 2]])
  const full = await neon(place.uri, { fullResults: true })`select 1 as n`
  assert.deepEqual(
    [full.command, full.rowCount, full.rows, full.fields],
    [
      'SELECT',
      1,
      [{ n: 1 }],
      [
        {
          name: 'n',
          tableID: 0,
          columnID: 0,
          dataTypeID: 23,
          dataTypeSize: 4,
          dataTypeModifier: -1,
          format: 'text',
        },
      ],
    ],
  )
  assert.deepEqual(await sql.query(''), [])
})

test('values of every type round-trip', async () => {
  const sql = neon(place.uri)
  const when = new Date('2026-01-02T03:04:05.678Z')
  const bytes = Buffer.from([0, 1, 254, 255])
  const [row] = await sql.query(
    `select $1::timestamptz as at, $2::jsonb as doc, $3::bytea as bytes, $4::text[] as texts, $5::float8 as f,
            $6::numeric as d`,
    [when, { a: [1, null, 'ä'] }, bytes, ['x', null, 'a "b" \\ {c}'], 0.1, '12345678901234567890.5'],
  )
  assert.deepEqual(row, {
    at: when,
    doc: { a: [1, null, 'ä'] },
    bytes,
    texts: ['x', null, 'a "b" \\ {c}'],
    f: 0.1,
    d: '12345678901234567890.5',
  })
})

test('an error of Postgres has its fields', async () => {
  const sql = neon(place.uri)
  await sql`create table one (n int constraint only_once primary key)`
  await sql`insert into one values (1)`
  await assert.rejects(
    async () => sql`insert into one values (1)`,
    (error: NeonDbError) => {
      assert.ok(error instanceof NeonDbError)
      assert.equal(error.message, 'duplicate key value violates unique constraint "only_once"')
      const { code, severity, detail, schema, table, constraint, routine } = error
      assert.deepEqual(
        { code, severity, detail, schema, table, constraint, routine },
        {
          code: '23505',
          severity: 'ERROR',
          detail: 'Key (n)=(1) already exists.',
          schema: 'public',
          table: 'one',
          constraint: 'only_once',
          routine: '_bt_check_unique',
        },
      )
      return true
    },
  )
  await assert.rejects(async () => sql`select ${1}::int as a, nothing`, { code: '42703', position: '22' })
  const wrong = neon(place.uri.replace(/:[^:@]*@/, ':wrong@'))
  await assert.rejects(async () => wrong`select 1`, { code: '28P01', message: /password authentication failed/ })
})

test('transactions run at each isolation level, and roll back when one query fails', async () => {
  const sql = neon(place.uri)
  const levels = {
    ReadUncommitted: 'read uncommitted',
    ReadCommitted: 'read committed',
    RepeatableRead: 'repeatable read',
    Serializable: 'serializable',
  } as const
  for (const [isolationLevel, level] of Object.entries(levels)) {
    const results = await sql.transaction(
      (tx) => [
        tx`select current_setting('transaction_isolation') as level, current_setting('transaction_read_only') as only`,
        tx.query('select 2 as n'),
      ],
      { isolationLevel: isolationLevel as keyof typeof levels, readOnly: true, deferrable: true },
    )
    assert.deepEqual(results, [[{ level, only: 'on' }], [{ n: 2 }]])
  }
  await assert.rejects(sql.transaction([sql`create table undone (n int)`, sql`select 1 / 0`]), { code: '22012' })
  assert.deepEqual(await sql`select to_regclass('undone') as there`, [{ there: null }])
  await assert.rejects(sql.transaction([sql`create table refused (n int)`], { readOnly: true }), { code: '25006' })
  assert.deepEqual(await sql.transaction([]), [])
})

test('an idle endpoint is woken by a query and by a WebSocket', async () => {
  const branch = await branchOff(neap, place)
  await suspend(neap, branch)
  assert.equal((await endpointOf(neap, branch)).current_state, 'idle')
  assert.deepEqual(await neon(branch.uri)`select 1 as n`, [{ n: 1 }])
  await settled(neap, branch, 'active')
  await suspend(neap, branch)
  assert.deepEqual(await neon(branch.uri)`select 2 as n`, [{ n: 2 }])
  await settled(neap, branch, 'active')
  await suspend(neap, branch)
  const client = new Client(branch.uri)
  await client.connect()
  assert.deepEqual((await client.query('select 3 as n')).rows, [{ n: 3 }])
  await client.end()
})

for (const pipelineConnect of ['password', false] as const)
  test(`pool and client work over WebSocket, pipelineConnect ${pipelineConnect}`, async () => {
    neonConfig.pipelineConnect = pipelineConnect
    const pool = new Pool({ connectionString: place.uri, max: 3 })
    const answers = await Promise.all([1, 2, 3, 4, 5].map((n) => pool.query<{ n: number }>('select $1::int as n', [n])))
    assert.deepEqual(
      answers.map(({ rows }) => rows[0]?.n),
      [1, 2, 3, 4, 5],
    )
    await pool.end()

    const client = new Client(place.uri)
    await client.connect()
    await client.query('begin')
    await client.query('create temp table large (t text) on commit drop')
    const large = 'x'.repeat(10 * 2 ** 20)
    await client.query('insert into large values ($1)', [large])
    const { rows } = await client.query<{ t: string }>('select * from large')
    assert.ok(rows[0]?.t === large)
    await assert.rejects(client.query('select 1 / 0'), { code: '22012' })
    await client.query('rollback')
    await client.end()

    const wrong = new Client(place.uri.replace(/:[^:@]*@/, ':wrong@'))
    wrong.on('error', () => {})
    await assert.rejects(wrong.connect().then(() => wrong.query('select 1')))
    await wrong.end()
  })

test('LISTEN and NOTIFY work over WebSocket', async () => {
  const [listener, notifier] = [new Client(place.uri), new Client(place.uri)]
  await Promise.all([listener.connect(), notifier.connect()])
  await listener.query('listen tide')
  const heard = once(listener, 'notification')
  await notifier.query(`notify tide, 'low'`)
  const [{ payload }] = (await heard) as [{ payload: string }]
  assert.equal(payload, 'low')
  await Promise.all([listener.end(), notifier.end()])
})

test('a pool sends its queries by HTTP', async () => {
  neonConfig.poolQueryViaFetch = true
  // The driver drops the port and all parts behind the database name, so the host must name the endpoint.
  neonConfig.fetchEndpoint = `https://localhost:${neap.ready.proxy_port}/sql`
  const pool = new Pool({ connectionString: named(place.uri) })
  const { rows, rowCount, command } = await pool.query<{ n: number }>('select $1::int as n', [7])
  assert.deepEqual([rows, rowCount, command], [[{ n: 7 }], 1, 'SELECT'])
  await assert.rejects(pool.query('select nothing'), { code: '42703' })
  await pool.end()
  neonConfig.poolQueryViaFetch = false
})
