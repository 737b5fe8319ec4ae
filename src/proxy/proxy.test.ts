import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import {
  bySni,
  byOptions,
  connect,
  type Fixture,
  makeFixture,
  NO_PSQL,
  observer,
  psql,
  until,
} from '../../test/proxy/fixture.ts'
import { sql } from '../catalog/sql.ts'
import type { Proxy } from './proxy.ts'

let fixture: Fixture
let proxy: Proxy
let active: string

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  active = await fixture.endpoint(await fixture.compute.start())
})
after(() => fixture.close())

/** The error that psql prints, with its SQLSTATE. */
async function refusal(connection: string): Promise<string> {
  const { code, stderr } = await psql(connection, '\\errverbose')
  assert.equal(code, 1, 'psql was let in')
  return stderr.replace(/^psql: error: connection to server at .* failed: /, '')
}

test('psql reaches an endpoint by startup options and by the host name in TLS', { skip: NO_PSQL }, async () => {
  assert.deepEqual(await psql(byOptions(proxy.port, active), 'select current_user'), {
    code: 0,
    stdout: 'alice',
    stderr: '',
  })
  const verified = bySni(proxy.port, active, `sslrootcert=${fixture.caFile} sslmode=verify-full`)
  assert.deepEqual(await psql(verified, 'select 42'), { code: 0, stdout: '42', stderr: '' })
  const tuned = bySni(proxy.port, active, "options='-c application_name=told -c work_mem=123MB'")
  assert.equal((await psql(tuned, "select current_setting('work_mem')")).stdout, '123MB')
})

test('who cannot be let in is told why', { skip: NO_PSQL }, async () => {
  const plain = byOptions(proxy.port, active, 'sslmode=disable')
  assert.equal(await refusal(plain), 'FATAL:  connection is insecure (try using `sslmode=require`)')
  assert.equal(
    await refusal(byOptions(proxy.port, 'ep-nobody-knows-00000000')),
    'FATAL:  password authentication failed for user "alice"',
  )
  assert.match(
    await refusal(byOptions(proxy.port, active).replace(/options=\S*/, '')),
    /Endpoint ID is not specified[^]*endpoint%3D<endpoint-id>/,
  )
  assert.match(
    await refusal(bySni(proxy.port, active, 'options=endpoint=ep-other')),
    /Inconsistent project name inferred from SNI/,
  )
  const disabled = await fixture.endpoint()
  await fixture.catalog.rows(sql`update endpoint set disabled = true where id = ${disabled}`)
  assert.equal(
    await refusal(byOptions(proxy.port, disabled)),
    'FATAL:  The endpoint has been disabled. Enable it using the API and retry.',
  )
})

test('a wrong password, an unknown role and a role of Neap itself are told the same', { skip: NO_PSQL }, async () => {
  const says = (user: string) => `FATAL:  password authentication failed for user "${user}"`
  const wrong = await psql(byOptions(proxy.port, active), 'select 1', { PGPASSWORD: 'wrong' })
  assert.ok(wrong.stderr.endsWith(says('alice')), wrong.stderr)
  for (const user of ['nobody', 'neap_admin', 'neap_other'])
    assert.equal(await refusal(byOptions(proxy.port, active, `user=${user}`)), says(user))
})

test('200 clients at once at a suspended endpoint are all served by one start', async () => {
  const idle = await fixture.endpoint()
  await fixture.compute.stop()
  const { asked, made } = fixture.starts
  const clients = await Promise.all(Array.from({ length: 200 }, () => connect(proxy.port, idle)))
  const answers = await Promise.all(
    clients.map((client, index) => client.query<{ n: number }>('select $1::int as n', [index])),
  )
  assert.deepEqual(
    answers.map((answer) => answer.rows[0]?.n),
    clients.map((_, index) => index),
  )
  assert.deepEqual(fixture.starts, { asked: asked + 1, made: made + 1 })
  await Promise.all(clients.map((client) => client.end()))
})

test('a compute that was killed is found gone and started again', { skip: NO_PSQL }, async () => {
  const endpoint = await fixture.endpoint()
  const session = await connect(proxy.port, endpoint)
  const ended = new Promise((resolve) => {
    session.once('end', resolve)
  })
  await fixture.compute.stop('SIGKILL')
  await ended
  assert.equal((await psql(byOptions(proxy.port, endpoint), 'select 1')).stdout, '1')
})

test('a client that hangs up before its compute has answered has nothing started', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'neap-mute-'))
  const computes = createServer().listen(join(directory, '.s.PGSQL.5432'))
  t.after(async () => {
    computes.close()
    await rm(directory, { recursive: true })
  })
  const endpoint = await fixture.endpoint(1)
  await fixture.catalog.rows(sql`update compute set address = ${directory} where endpoint_id = ${endpoint}`)
  const asked = fixture.starts.asked
  const mute = await fixture.proxy({ readVerifier: async () => fixture.verifier })
  const psqlProcess = spawn('psql', [byOptions(mute.port, endpoint)], {
    env: { ...process.env, PGPASSWORD: 'correct horse' },
  })
  const [compute] = (await once(computes, 'connection')) as [Socket]
  compute.resume()
  psqlProcess.kill('SIGKILL')
  await once(compute, 'end')
  await psql(byOptions(mute.port, active), 'select 1')
  assert.equal(fixture.starts.asked, asked)
  await mute.stop()
})

test('a start that fails is told with its reason, one that takes too long with a hint', { skip: NO_PSQL }, async () => {
  const endpoint = await fixture.endpoint()
  const operation = await fixture.operation(endpoint, 'start_compute')
  const slow = await fixture.proxy({ requestStart: async () => operation.id, wakeTimeoutMs: 100 })
  assert.match(await refusal(byOptions(slow.port, endpoint)), /did not become ready in time[^]*HINT.*try again/)
  const progress = 'Postgres recovers after a crash: 16 of 48 MiB of its log are replayed'
  await fixture.catalog.rows(sql`update operation set wait_reason = ${progress} where id = ${operation.id}`)
  assert.match(await refusal(byOptions(slow.port, endpoint)), new RegExp(`ready in time[^]*DETAIL: +${progress}`))
  await fixture.catalog.rows(
    sql`update operation set status = 'failed', error = 'no such disk', finished_at = now() where id = ${operation.id}`,
  )
  assert.equal(
    await refusal(byOptions(slow.port, endpoint)),
    "FATAL:  Couldn't connect to compute node\nDETAIL:  no such disk",
  )
  await slow.stop()
})

test('where there is no room a client waits until there is', async () => {
  await fixture.compute.stop()
  const room = ['max_connections=6', 'superuser_reserved_connections=0', 'reserved_connections=0', 'max_wal_senders=0']
  const endpoint = await fixture.endpoint(await fixture.compute.start(...room))
  const clients = await Promise.all(Array.from({ length: 6 }, () => connect(proxy.port, endpoint)))
  const late = connect(proxy.port, endpoint)
  await until(async () => fixture.compute.log().includes('too many clients'))
  await clients[0]?.end()
  const served = await late
  assert.equal((await served.query('select 1 as n')).rowCount, 1)
  await Promise.all([...clients.slice(1), served].map((client) => client.end()))
  await fixture.compute.stop()
  active = await fixture.endpoint(await fixture.compute.start())
})

test('Ctrl-C in psql cancels through the proxy', { skip: NO_PSQL }, async () => {
  const child = spawn(
    'psql',
    ['-XAtq', byOptions(proxy.port, active, 'application_name=to_cancel'), '-c', 'select pg_sleep(600)'],
    {
      env: { PATH: process.env['PATH'], PGPASSWORD: 'correct horse' },
    },
  )
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const watching = await observer(fixture)
  await until(async () => {
    const { rows } = await watching.query(
      "select 1 from pg_stat_activity where application_name = 'to_cancel' and wait_event = 'PgSleep'",
    )
    return rows.length > 0
  })
  child.kill('SIGINT')
  await once(child, 'close')
  await watching.end()
  assert.match(stderr, /canceling statement due to user request/)
})

test('what passed is known to the catalog as the last activity of the endpoint', { skip: NO_PSQL }, async () => {
  const endpoint = await fixture.endpoint()
  await fixture.catalog.rows(sql`
    update endpoint
       set (current_state, compute_id) = (select current_state, compute_id from endpoint where id = ${active})
     where id = ${endpoint}`)
  await psql(byOptions(proxy.port, endpoint), 'select 1')
  await until(async () =>
    fixture.catalog.row(
      sql`select 1 from endpoint where id = ${endpoint} and last_active > now() - interval '1 minute'`,
    ),
  )
})

test('sessions go on while the catalog is away, and connecting works when it is back', { skip: NO_PSQL }, async () => {
  const hasty = await fixture.proxy({ wakeTimeoutMs: 700 })
  const session = await connect(proxy.port, active)
  await fixture.catalogServer.stop('SIGQUIT')
  assert.equal((await session.query('select 1')).rowCount, 1)
  assert.match(await refusal(byOptions(hasty.port, active)), /The catalog cannot be reached/)
  const waiting = connect(proxy.port, active)
  await fixture.catalogServer.start()
  await (await waiting).end()
  await session.end()
  await hasty.stop()
})

test('a stopping proxy ends idle sessions with the words that Postgres uses', async () => {
  const short = await fixture.proxy()
  const session = await connect(short.port, active)
  const ended = once(session, 'error')
  await Promise.all([short.stop(), ended])
  const [error] = (await ended) as [Error & { code?: string }]
  assert.equal(error.code, '57P01')
})

test('a client that is gone has its query cancelled', async () => {
  const client = await connect(proxy.port, active)
  const watcher = await observer(fixture)
  const running = client.query('select pg_sleep(63)').catch(() => {})
  const isRunning = async (): Promise<boolean> => {
    const { rows } = await watcher.query(
      `select 1 from pg_stat_activity
        where query like '%pg_sleep(63)%' and state = 'active' and pid <> pg_backend_pid()`,
    )
    return rows.length > 0
  }
  await until(isRunning)
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  await running
  await until(async () => !(await isRunning()))
  await watcher.end()
})
