import assert from 'node:assert/strict'
import { connect as openSocket } from 'node:net'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { byOptions, connect, type Fixture, makeFixture, observer, psql, until } from '../../../test/proxy/fixture.ts'
import type { Proxy } from '../proxy.ts'

let fixture: Fixture
let proxy: Proxy
let pid: number
let endpoint: string

before(async () => {
  fixture = await makeFixture()
  pid = await fixture.compute.start()
  proxy = await fixture.proxy({ poolSize: 2 })
  endpoint = await fixture.endpoint(pid)
})
after(() => fixture.close())

const pooled = (more: pg.ClientConfig = {}): Promise<pg.Client> => connect(proxy.port, `${endpoint}-pooler`, more)

async function pidOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]?.pid ?? 0
}

test('clients share sessions one after the other, and keep theirs within a transaction', async () => {
  const clients = await Promise.all(Array.from({ length: 20 }, () => pooled()))
  const pids = new Set(await Promise.all(clients.map(pidOf)))
  assert.ok(pids.size <= 2, `${pids.size} sessions for 20 clients`)
  const [one, other] = clients as [pg.Client, pg.Client]
  await one.query('begin')
  const mine = await pidOf(one)
  assert.notEqual(await pidOf(other), mine)
  assert.equal(await pidOf(one), mine)
  await one.query('commit')
  await Promise.all(clients.map((client) => client.end()))
})

test('psql works, pooled', async () => {
  assert.deepEqual(await psql(byOptions(proxy.port, `${endpoint}-pooler`), 'select 1 + 1'), {
    code: 0,
    stdout: '2',
    stderr: '',
  })
})

test('a client that waits for a session gets the next free one', async () => {
  const clients = await Promise.all(Array.from({ length: 3 }, () => pooled()))
  const [one, other, third] = clients as [pg.Client, pg.Client, pg.Client]
  await Promise.all([one.query('begin'), other.query('begin')])
  const waiting = third.query('select 1 as n')
  await one.query('rollback')
  assert.deepEqual((await waiting).rows, [{ n: 1 }])
  await other.query('rollback')
  await Promise.all(clients.map((client) => client.end()))
})

test('a prepared statement follows its client from session to session', async () => {
  const clients = await Promise.all(Array.from({ length: 6 }, () => pooled()))
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(
      clients.map((client, index) =>
        client.query<{ sum: number }>({ name: 'add', text: `select $1::int + ${index % 3} as sum`, values: [round] }),
      ),
    )
    assert.deepEqual(
      answers.map(({ rows }) => rows[0]?.sum),
      clients.map((_client, index) => round + (index % 3)),
    )
  }
  await Promise.all(clients.map((client) => client.end()))
})

test('DEALLOCATE frees a statement of the protocol on a session that never had it', async () => {
  const clients = await Promise.all(Array.from({ length: 3 }, () => pooled()))
  const [client, one, other] = clients as [pg.Client, pg.Client, pg.Client]
  const add = { name: 'add', text: 'select 1' }
  await one.query('begin')
  await client.query(add)
  await other.query('begin')
  await one.query('rollback')
  assert.equal((await client.query('DEALLOCATE "add"')).command, 'DEALLOCATE')
  await assert.rejects(client.query(add), { code: '26000' })
  await other.query('rollback')
  await Promise.all(clients.map((each) => each.end()))
})

test('after an error of a batch, the prepared statements are those of the server', async () => {
  const client = await pooled()
  await assert.rejects(client.query({ name: 'bad', text: 'select nonsense' }), { code: '42703' })
  await assert.rejects(client.query({ name: 'zero', text: 'select 1 / $1::int', values: [0] }), { code: '22012' })
  const { rows } = await client.query<{ n: number }>({ name: 'zero', text: 'select 1 / $1::int', values: [1] })
  assert.equal(Object.values(rows[0] ?? {})[0], 1)
  await client.end()
})

test('settings that Postgres reports follow their client, others are gone for the next', async () => {
  const [one, other] = [await pooled({ application_name: 'one' }), await pooled({ application_name: 'other' })]
  const show = async (client: pg.Client, name: string): Promise<unknown> =>
    Object.values((await client.query(`show ${name}`)).rows[0] as object)[0]
  await one.query("set timezone = 'Asia/Tokyo'")
  await one.query('set session characteristics as transaction read only')
  await one.query('set statement_timeout = 12345')
  for (let round = 0; round < 4; round++) {
    assert.deepEqual(await Promise.all([show(one, 'application_name'), show(other, 'application_name')]), [
      'one',
      'other',
    ])
    assert.deepEqual(await Promise.all([show(one, 'timezone'), show(other, 'timezone')]), ['Asia/Tokyo', 'Etc/UTC'])
    assert.deepEqual(await Promise.all([show(one, 'transaction_read_only'), show(other, 'transaction_read_only')]), [
      'on',
      'off',
    ])
    assert.equal(await show(other, 'statement_timeout'), '0')
  }
  await Promise.all([one.end(), other.end()])
})

test('LISTEN is refused with a hint, within its transaction', async () => {
  const client = await pooled()
  await assert.rejects(client.query('listen news'), {
    code: '0A000',
    hint: 'Connect to the host name without -pooler.',
  })
  await client.query('begin')
  await assert.rejects(client.query({ name: 'l', text: ' LISTEN news' }), { code: '0A000' })
  await assert.rejects(client.query('select 1'), { code: '25P02' })
  await client.query('rollback')
  await client.end()
})

test('a query is cancelled, and only that', async () => {
  const [one, other] = [await pooled(), await pooled()]
  const { processID, secretKey } = one as unknown as { processID: number; secretKey: number }
  const sleeping = one.query('select pg_sleep(60)')
  const packet = Buffer.alloc(16)
  packet.writeInt32BE(16, 0)
  packet.writeInt32BE(80_877_102, 4)
  packet.writeInt32BE(processID, 8)
  packet.writeInt32BE(secretKey, 12)
  const watcher = await observer(fixture)
  await until(async () => {
    const { rows } = await watcher.query(
      `select 1 from pg_stat_activity
        where query like '%pg_sleep(60)%' and state = 'active' and pid <> pg_backend_pid()`,
    )
    return rows.length > 0
  })
  const socket = openSocket(proxy.port, '127.0.0.1').end(packet)
  await assert.rejects(sleeping, { code: '57014' })
  assert.ok(await pidOf(other))
  assert.ok(await pidOf(one))
  socket.destroy()
  await Promise.all([one.end(), other.end(), watcher.end()])
})

test('a client that is gone has its query cancelled and its transaction rolled back', async () => {
  const watcher = await observer(fixture)
  const client = await pooled()
  const running = client.query('select pg_sleep(61)').catch(() => {})
  const count = async (): Promise<number> =>
    (
      await watcher.query(
        `select 1 from pg_stat_activity
          where query like '%pg_sleep(61)%' and pid <> pg_backend_pid() and state = 'active'`,
      )
    ).rows.length
  await until(async () => (await count()) === 1)
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  await running
  await until(async () => (await count()) === 0)
  await watcher.end()
})

test('an idle client outlives a stop of the compute, and a transaction ends with an error', async () => {
  const [idle, within] = [await pooled(), await pooled()]
  await idle.query({ name: 'kept', text: 'select 7 as n' })
  await within.query('begin')
  const ends: string[] = []
  for (const client of [idle, within]) client.on('end', () => ends.push('end'))
  await fixture.idle(endpoint)
  await fixture.compute.stop('SIGINT')
  const { rows } = await idle.query<{ n: number }>({ name: 'kept', text: 'select 7 as n' })
  assert.deepEqual(rows, [{ n: 7 }])
  await assert.rejects(within.query('select 1'), { code: '40001' })
  await assert.rejects(within.query('select 1'), { code: '25P02' })
  await within.query('rollback')
  assert.ok(await pidOf(within))
  assert.deepEqual(ends, [])
  await Promise.all([idle.end(), within.end()])
})

test('a client whose session alone is ended gets the error, and its query is not repeated', async () => {
  const [client, watcher] = [await pooled(), await observer(fixture)]
  // No byte of the response comes before the session ends.
  const running = client.query('select 1 into temp nap from pg_sleep(62)')
  const end = async (): Promise<boolean> => {
    const { rows } = await watcher.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where query like '%pg_sleep(62)%' and state = 'active' and pid <> pg_backend_pid()`,
    )
    return rows.length > 0
  }
  const refused = assert.rejects(running, { code: '57P01' })
  await until(end)
  await refused
  await client.query("set idle_in_transaction_session_timeout = '1ms'; begin")
  await until(async () => {
    const { rows } = await watcher.query("select 1 from pg_stat_activity where state = 'idle in transaction'")
    return rows.length === 0
  })
  await assert.rejects(client.query('select 1'), { code: '25P03' })
  await client.query('rollback')
  assert.equal((await client.query('select 1')).rowCount, 1)
  await Promise.all([client.end(), watcher.end()])
})

test('requests that pooling does not support are refused with a hint', async () => {
  const refusedWith = async (more: pg.ClientConfig): Promise<string> =>
    await pooled(more).then(
      () => 'taken',
      (error: unknown) => {
        const { code, message, hint } = error as pg.DatabaseError
        return `${code} ${message} ${hint}`
      },
    )
  assert.equal(
    await refusedWith({ replication: 'database' } as pg.ClientConfig),
    '0A000 replication connections cannot be pooled Connect to the host name without -pooler.',
  )
  assert.equal(
    await refusedWith({ options: `endpoint=${endpoint}-pooler -c statement_timeout=1` }),
    '0A000 unsupported startup parameter in options: statement_timeout Connect to the host name without -pooler.',
  )
  assert.equal(
    await refusedWith({ options: `endpoint=${endpoint}-pooler -c timezone=Nowhere` }),
    '22023 invalid value for parameter "TimeZone": "Nowhere" undefined',
  )
  const client = await pooled({ options: `endpoint=${endpoint}-pooler -c timezone=Asia/Tokyo` })
  const { rows } = await client.query<{ TimeZone: string }>('show timezone')
  assert.deepEqual(rows, [{ TimeZone: 'Asia/Tokyo' }])
  await client.end()
})

test('long texts and values pass, however they are cut', async () => {
  const client = await pooled()
  const long = 'x'.repeat(5_000_000)
  const lengthOf = async (query: pg.QueryConfig): Promise<unknown> =>
    (await client.query<{ length: number }>(query)).rows[0]?.length
  assert.equal(await lengthOf({ text: `select length('${long}')` }), long.length)
  assert.equal(await lengthOf({ text: 'select length($1)', values: [long] }), long.length)
  assert.equal(await lengthOf({ name: 'long', text: `select length($1) -- ${long}`, values: [long] }), long.length)
  const { rows } = await client.query<{ long: string }>({ text: "select repeat('y', 5000000) as long" })
  assert.equal(rows[0]?.long.length, 5_000_000)
  await client.end()
})
