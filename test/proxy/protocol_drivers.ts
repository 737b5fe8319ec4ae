import assert from 'node:assert/strict'
import { once } from 'node:events'
import type pg from 'pg'
import Cursor from 'pg-cursor'
import QueryStream from 'pg-query-stream'
import postgres from 'postgres'
import { int32 } from '../../src/proxy/wire/messages.ts'
import { connect, observer, until } from './fixture.ts'
import type { Kind, On, Scene } from './protocol.ts'
import { cancel } from './protocol_client.ts'
import { PASSWORD } from './servers.ts'

/* The drivers that most programs for Node use, as their users use them. */

export function driverTests(on: On, kind: Kind): void {
  const withPg = (name: string, run: (client: pg.Client, scene: Scene) => Promise<void>): void =>
    on(`pg: ${name}`, async (scene) => {
      const client = await connect(scene.proxy.port, scene.host(kind))
      try {
        await run(client, scene)
      } finally {
        await client.end()
      }
    })

  withPg('parameters, types and errors', async (client) => {
    const { rows } = await client.query(
      `select $1::int as i, $2::text as t, $3::jsonb as j, $4::bytea as b, $5::timestamptz as d, $6::int[] as a,
              $7::numeric as n, null as z, true as y`,
      [42, 'naïve 😀', { a: [1] }, Buffer.from([0, 255]), new Date(0), [1, 2], '1e20'],
    )
    const z = null
    assert.deepEqual(rows, [
      {
        i: 42,
        t: 'naïve 😀',
        j: { a: [1] },
        b: Buffer.from([0, 255]),
        d: new Date(0),
        a: [1, 2],
        n: '100000000000000000000',
        z,
        y: true,
      },
    ])
    await assert.rejects(client.query('select $1::int', ['x']), { code: '22P02', severity: 'ERROR' })
    await assert.rejects(client.query("insert into item values (1, 'x'), (1, 'y')"), {
      code: '23505',
      constraint: 'item_pkey',
      table: 'item',
    })
    const binary = { text: 'select $1::int4 as n', values: [7], binary: true }
    assert.deepEqual((await client.query<{ n: number }>(binary)).rows, [{ n: 7 }])
    assert.deepEqual((await client.query({ text: 'select 1, 2', rowMode: 'array' })).rows, [[1, 2]])
  })

  withPg('named statements, many at once', async (client) => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        client.query<{ sum: number }>({
          name: `add${index % 8}`,
          text: `select $1::int + ${index % 8} as sum`,
          values: [index],
        }),
      ),
    )
    assert.deepEqual(
      answers.map(({ rows }) => rows[0]?.sum),
      answers.map((_, index) => index + (index % 8)),
    )
  })

  withPg('a cursor', async (client) => {
    const cursor = client.query(new Cursor<{ n: number }>('select n from generate_series(1, $1::int) n', [250]))
    const sizes: number[] = []
    for (let rows = await cursor.read(100); rows.length > 0; rows = await cursor.read(100)) sizes.push(rows.length)
    await cursor.close()
    assert.deepEqual(sizes, [100, 100, 50])
    const given = client.query(new Cursor<{ n: number }>('select n from generate_series(1, 1000) n'))
    assert.equal((await given.read(3)).length, 3)
    await given.close()
    assert.deepEqual((await client.query('select 1 as n')).rows, [{ n: 1 }])
  })

  withPg('a stream of rows, and one that is given up', async (client) => {
    let sum = 0
    for await (const row of client.query(
      new QueryStream('select n from generate_series(1, 3000) n', [], { batchSize: 500 }),
    ))
      sum += (row as { n: number }).n
    assert.equal(sum, 4_501_500)
    const given = client.query(new QueryStream('select n from generate_series(1, 100000) n', [], { batchSize: 10 }))
    for await (const row of given) if ((row as { n: number }).n === 20) break
    assert.deepEqual((await client.query('select 1 as n')).rows, [{ n: 1 }])
  })

  withPg('a cancelled query', async (client, scene) => {
    const sleeping = client.query('select pg_sleep(600)').catch((error: unknown) => error)
    const watcher = await observer(scene.fixture)
    await until(
      async () => (await watcher.query("select 1 from pg_stat_activity where wait_event = 'PgSleep'")).rowCount,
    )
    const { processID, secretKey } = client as unknown as { processID: number; secretKey: number }
    await cancel(scene.proxy.port, Buffer.concat([int32(processID), int32(secretKey)]))
    assert.equal(((await sleeping) as { code?: string }).code, '57014')
    assert.deepEqual((await client.query('select 1 as n')).rows, [{ n: 1 }])
    await watcher.end()
  })

  for (const prepare of [true, false])
    on(`postgres, ${prepare ? 'with' : 'without'} prepared statements`, async (scene) => {
      const sql = postgres({
        host: '127.0.0.1',
        port: scene.proxy.port,
        user: 'alice',
        password: PASSWORD,
        database: 'postgres',
        ssl: { rejectUnauthorized: false },
        max: 3,
        prepare,
        onnotice: () => {},
        connection: { options: `endpoint=${scene.host(kind)}` },
      })
      try {
        await withPostgres(sql)
      } finally {
        await sql.end()
      }
    })

  on('LISTEN and NOTIFY', async ({ proxy, host }) => {
    const [listener, sender] = [await connect(proxy.port, host(kind)), await connect(proxy.port, host(kind))]
    if (kind === 'pooled') await assert.rejects(listener.query('listen news'), { code: '0A000' })
    else {
      await listener.query('listen news')
      const heard = once(listener, 'notification')
      await sender.query("select pg_notify('news', 'x')")
      assert.equal(((await heard) as [pg.Notification])[0].payload, 'x')
    }
    await Promise.all([listener.end(), sender.end()])
  })
}

async function withPostgres(sql: postgres.Sql): Promise<void> {
  const many = await Promise.all(Array.from({ length: 60 }, (_, n) => sql<{ n: number }[]>`select ${n}::int as n`))
  assert.deepEqual(
    many.map(([row]) => row?.n),
    many.map((_, n) => n),
  )
  const [types] =
    await sql`select ${sql.json({ a: 1 })}::jsonb as j, ${[1, 2]}::int[] as a, ${new Date(0)}::timestamptz as d`
  assert.deepEqual({ ...types }, { j: { a: 1 }, a: [1, 2], d: new Date(0) })
  await assert.rejects(sql`select ${1}::int / 0`, { code: '22012' })
  const sums = await sql.begin(async (tx) => {
    const within = await Promise.all([1, 2, 3].map((n) => tx<{ n: number }[]>`select ${n}::int * 2 as n`))
    await tx.savepoint((point) => point`select 1/0`).catch(() => {})
    return within.map(([row]) => row?.n)
  })
  assert.deepEqual(sums, [2, 4, 6])
  let seen = 0
  await sql`select generate_series(1, 25)`.cursor(10, (rows) => {
    seen += rows.length
  })
  assert.equal(seen, 25)
  assert.equal((await sql`select 1; select 2`.simple()).length, 2)
  assert.equal((await sql.unsafe('select $1::text as t', ['x']))[0]?.['t'], 'x')
  const described = await sql`select 1 as one, 'x' as two`.describe()
  assert.deepEqual(
    described.columns.map(({ name }) => name),
    ['one', 'two'],
  )
}
