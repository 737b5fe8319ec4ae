import assert from 'node:assert/strict'
import { after, before, test as nodeTest } from 'node:test'
import pg from 'pg'
import { connect, observer, PASSWORD, until } from '../proxy/fixture.ts'
import { makeScene, type Scene } from '../proxy/protocol.ts'
import { query, type RawClient, rawClient, run, sync } from '../proxy/protocol_client.ts'

/*
 * A session is lost while a pooled client has a transaction open in it: the client learns the outcome of the
 * transaction.
 */

const test = (name: string, body: () => Promise<void>): void => void nodeTest(name, { timeout: 60_000 }, body)

let scene: Scene
let watcher: pg.Client

before(async () => {
  scene = await makeScene()
  watcher = await observer(scene.fixture)
  const { socketDir } = scene.fixture.compute
  const superuser = new pg.Client({ host: socketDir, user: 'postgres', password: PASSWORD, database: 'postgres' })
  await superuser.connect()
  await superuser.query(`
    set role alice;
    create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(600); return null; end $$;
    create table slow (n int);
    create constraint trigger nap after insert on slow deferrable initially deferred
      for each row execute function nap();`)
  await superuser.end()
})
after(async () => {
  await watcher.end()
  await scene.fixture.close()
})

const raw = (): Promise<RawClient> => rawClient(scene.way('pooled'))

/** Terminates the sleeping session. */
const endSleeper = (): Promise<unknown> =>
  until(async () => {
    const { rowCount } = await watcher.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'alice' and wait_event = 'PgSleep'",
    )
    return rowCount === 1
  })

test('a statement in a lost transaction fails with the rollback', async () => {
  const client = await connect(scene.proxy.port, scene.host('pooled'))
  await client.query('begin')
  const refused = assert.rejects(client.query('select 1 into temp nap from pg_sleep(600)'), { code: '40001' })
  await endSleeper()
  await refused
  await assert.rejects(client.query('select 1'), { code: '25P02' })
  await client.query('rollback')
  assert.equal((await client.query('select 1')).rowCount, 1)
  await client.end()
})

for (const [kind, commit] of Object.entries({
  simple: query('commit'),
  extended: Buffer.concat([run('commit'), sync()]),
}))
  test(`a COMMIT in a lost session fails with an unknown outcome and leaves the client idle, ${kind}`, async () => {
    const client = await raw()
    client.send(query('begin; insert into slow values (1)'))
    await client.answer()
    client.send(commit)
    await endSleeper()
    const answer = await client.answer()
    assert.match(answer.find((message) => message.startsWith('E')) ?? '', /^E 40003/)
    assert.equal(answer.at(-1), 'Z I')
    client.send(query('select 7'))
    assert.deepEqual(await client.answer(), ['T 1', 'D 7', 'C SELECT 1', 'Z I'])
    client.close()
  })

test('a ROLLBACK in a lost session succeeds and leaves the client idle', async () => {
  const client = await raw()
  client.send(query('begin'), query('select pg_backend_pid()'))
  await client.answer()
  const [, row = ''] = await client.answer()
  const pid = Number(row.replace('D ', ''))
  // While stopped, it receives the termination before it reads the ROLLBACK.
  process.kill(pid, 'SIGSTOP')
  client.send(query('rollback'))
  await watcher.query('select pg_terminate_backend($1)', [pid])
  process.kill(pid, 'SIGCONT')
  assert.deepEqual(await client.answer(), ['C ROLLBACK', 'Z I'])
  client.close()
})
