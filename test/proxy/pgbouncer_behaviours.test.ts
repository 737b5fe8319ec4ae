import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test as nodeTest, type TestContext } from 'node:test'
import type pg from 'pg'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { connect, observer, until } from './fixture.ts'
import { makeScene, type Scene } from './protocol.ts'
import {
  bind,
  cancel,
  copyData,
  copyDone,
  describe,
  execute,
  flush,
  parse,
  query,
  type RawClient,
  rawClient,
  run,
  sync,
  terminate,
} from './protocol_client.ts'

/*
 * Behaviours that PgBouncer's own tests check, as far as they apply to a pooled host of Neap. protocol_scripts.ts
 * checks answers message by message, at every version of Postgres. Of PgBouncer's files
 *
 *   test_prepared, test_copy, test_cancel, test_misc, test_no_database, test_no_user, test_limits, test_sbuf_loopcnt,
 *   test_ssl_pending       are here or there, except for settings that Neap does not have
 *   test_operations, test_replication    pooled.test.ts; replication is refused, as in protocol_replication.ts
 *   test_auth, test_ssl, test_ssl_eof    beside auth/, certificate.ts and proxy.ts: no md5, no client certificates,
 *                                        no auth_query
 *   test_timeouts                        covered by Postgres' idle_in_transaction_session_timeout and
 *                                        statement_timeout; the wait for a session is limited to two minutes
 *   test_admin, test_config, test_mkauth, test_cleanup    there is no admin console, and no file of users
 *   test_host_strategy, test_load_balance_*, test_pool_balancing, test_target_session_attrs, test_dns_stuck,
 *   test_peering           an endpoint has one compute, and its address is in the catalog, by which proxies forward
 *                          cancel requests
 *   test_auth_gss, test_example, stress  no GSSAPI; not applicable
 */

/** A test that hangs fails by its timeout. */
const test = (name: string, body: (t: TestContext) => Promise<void>): void =>
  void nodeTest(name, { timeout: 60_000 }, body)

let scene: Scene
/** A proxy with one session for all clients of a pool. */
let single: Proxy
let watcher: pg.Client

before(async () => {
  scene = await makeScene()
  single = await scene.fixture.proxy({ poolSize: 1 })
  watcher = await observer(scene.fixture)
})
after(async () => {
  await watcher.end()
  await scene.fixture.close()
})

const pooled = (more: pg.ClientConfig = {}, proxy = single): Promise<pg.Client> =>
  connect(proxy.port, scene.host('pooled'), more)

const raw = (parameters: Record<string, string> = {}, proxy = single): Promise<RawClient> =>
  rawClient({ ...scene.way('pooled', parameters), to: { port: proxy.port } })

async function value(client: pg.Client, sql: string | pg.QueryConfig): Promise<unknown> {
  return Object.values((await client.query<Record<string, unknown>>(sql)).rows[0] ?? {})[0]
}

const end = (...clients: pg.Client[]): Promise<unknown> => Promise.all(clients.map((client) => client.end()))

/** Waits until `count` sessions of a role meet the condition. */
const sessions = (condition: string, count: number, role = 'alice'): Promise<unknown> =>
  until(async () => {
    const { rowCount } = await watcher.query(
      `select 1 from pg_stat_activity where usename = '${role}' and application_name <> 'apart' and ${condition}`,
    )
    return rowCount === count
  })

test('a session evicts prepared statements over its limit, and prepares them again when used', async () => {
  const client = await raw()
  const add = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n++) client.send(parse(`s${n}`, `select ${n}`), bind('', `s${n}`), execute())
    client.send(sync())
    const answer = await client.answer()
    assert.deepEqual(answer.filter((message) => message.startsWith('D')).length, to - from)
  }
  await add(0, 700)
  const counting = await pooled()
  assert.ok(Number(await value(counting, 'select count(*) from pg_prepared_statements')) <= 500)
  for (const n of [0, 699, 1, 350]) {
    client.send(bind('', `s${n}`), execute(), describe('S', `s${699 - n}`), sync())
    assert.deepEqual(await client.answer(), ['2', `D ${n}`, 'C SELECT 1', 't 0000', 'T 1', 'Z I'])
  }
  // Statements are evicted in a batch that fails.
  client.send(bind('', 's2'), execute(), parse('bad', 'nonsense'), parse('never', 'select 1'), sync())
  assert.match(String(await client.answer()), /^2,D 2,C SELECT 1,E 42601 .*,Z I$/)
  client.send(bind('', 's3'), execute(), bind('', 'never'), sync())
  assert.match(String(await client.answer()), /^2,D 3,C SELECT 1,E 26000 .*,Z I$/)
  client.close()
  await counting.end()
})

test('a session that has as many statements as it may skips another one after an error', async () => {
  const client = await raw()
  client.send(...Array.from({ length: 500 }, (_, number) => parse(`n${number}`, `select ${number}`)), sync())
  await client.answer()
  client.send(execute('absent'), flush())
  assert.match(String(await client.next(1)), /^E 34000/)
  client.send(parse('more', 'select 500'), bind('', 'more'), execute(), sync())
  assert.deepEqual(await client.answer(), ['Z I'])
  client.send(parse('more', 'select 500'), bind('', 'more'), execute(), sync())
  assert.deepEqual(await client.answer(), ['1', '2', 'D 500', 'C SELECT 1', 'Z I'])
  client.close()
})

test('names and texts may be longer than the buffers', async () => {
  const client = await raw()
  const name = 'n'.repeat(50_000)
  const long = 'x'.repeat(200_000)
  client.send(flush(), parse(name, `select length($1), '${long}'`), sync())
  assert.deepEqual(await client.answer(), ['1', 'Z I'])
  client.send(describe('S', name), bind('', name, long), execute(), sync())
  assert.deepEqual(await client.answer(), [
    't 000100000019',
    'T 2',
    '2',
    `D 200000|${'x'.repeat(20)}…200000`,
    'C SELECT 1',
    'Z I',
  ])
  client.close()
})

test('a batch keeps its session until its Sync', async () => {
  const [slow, other] = [await raw(), await pooled()]
  slow.send(run('select 1'), sync(), parse('', "select set_config('neap.mine', $1, true)"))
  await slow.answer()
  const waiting = value(other, 'select 2')
  slow.send(bind('', '', 'a'), execute(), flush())
  assert.deepEqual(await slow.next(4), ['1', '2', 'D a', 'C SELECT 1'])
  slow.send(run("select current_setting('neap.mine')"), sync())
  assert.deepEqual(await slow.answer(), ['1', '2', 'D a', 'C SELECT 1', 'Z I'])
  assert.equal(await waiting, 2)
  slow.close()
  await other.end()
})

test('a client that waits for a session can be cancelled, and is served afterwards', async () => {
  const [holder, waiter] = [await pooled(), await raw()]
  await holder.query('begin')
  waiter.send(query('select 1'))
  let answered: string[] | undefined
  void waiter.answer().then((answer) => (answered = answer))
  // A waiting client is not visible from outside.
  await until(async () => {
    await cancel(single.port, waiter.key)
    return answered !== undefined
  })
  assert.deepEqual(answered, ['E 57014 canceling statement due to user request', 'Z I'])
  await holder.query('commit')
  waiter.send(query('select 2'))
  assert.deepEqual(await waiter.answer(), ['T 1', 'D 2', 'C SELECT 1', 'Z I'])
  waiter.close()
  await holder.end()
})

test('a cancel of an idle client cancels no other client', async () => {
  const [idle, busy] = [await raw(), await pooled()]
  const asked = Array.from({ length: 40 }, () => cancel(single.port, idle.key))
  for (let n = 0; n < 20; n++) assert.equal(await value(busy, 'select 1 from pg_sleep(0.002)'), 1)
  await Promise.all(asked)
  idle.send(query('select pg_sleep(600)'))
  await sessions("wait_event = 'PgSleep'", 1)
  const next = value(busy, 'select 3 from pg_sleep(0.05)')
  await Promise.all(Array.from({ length: 40 }, () => cancel(single.port, idle.key)))
  assert.match(String(await idle.answer()), /E 57014/)
  assert.equal(await next, 3)
  idle.close()
  await busy.end()
})

test('a client that disconnects in any state leaves a clean session', async (t) => {
  const states: Record<string, (client: RawClient) => Promise<unknown>> = {
    idle: async () => {},
    'in a transaction': async (client) => {
      client.send(query('begin; insert into item values (1, $$x$$)'))
      await client.answer()
    },
    'in a failed transaction': async (client) => {
      client.send(query('begin; select 1/0'))
      await client.answer()
    },
    'in a batch without Sync': async (client) => {
      client.send(run("insert into item values (1, 'x')"), flush())
      await client.next(3)
    },
    'after a failed Parse': async (client) => {
      client.send(parse('', 'nonsense'), flush())
      await client.next(1)
    },
    'within a message': async (client) => {
      client.send(run('select 1'), parse('', 'x'.repeat(500)).subarray(0, 300))
    },
    'in a query': async (client) => {
      client.send(query('select pg_sleep(600)'))
      await sessions("wait_event = 'PgSleep'", 1)
    },
    'in a COPY in': async (client) => {
      client.send(query('copy arrived from stdin'))
      await client.next(1)
      client.send(copyData('x\n'))
    },
    'with a Terminate in a COPY in': async (client) => {
      client.send(query('copy arrived from stdin'))
      await client.next(1)
      client.send(copyData('x\n'), terminate())
    },
    'with a Terminate right after a COPY in': async (client) => {
      client.send(query('copy arrived from stdin'), terminate())
    },
    'with a Terminate in a batch without Sync': async (client) => {
      client.send(run("insert into item values (1, 'x')"), terminate())
    },
    'with malformed bytes': async (client) => {
      client.send(run("insert into item values (1, 'x')"), Buffer.from('nonsense'))
    },
    'in a COPY out that it does not read': async (client) => {
      client.socket.pause()
      client.send(query('copy (select repeat($$x$$, 1000) from generate_series(1, 1000000)) to stdout'))
      await sessions("wait_event = 'ClientWrite'", 1)
    },
    'with settings and a temporary table': async (client) => {
      client.send(query("set work_mem = '1234kB'; create temp table rest (n int); prepare p as select 1"))
      await client.answer()
    },
  }
  for (const [state, enter] of Object.entries(states))
    await t.test(state, async () => {
      const client = await raw()
      await enter(client)
      if (state.includes('Terminate') || state.includes('malformed')) client.socket.end()
      else client.socket.destroy()
      const next = await pooled()
      assert.equal(await value(next, 'select count(*)::int from item'), 0)
      assert.equal(
        await value(next, "select current_setting('work_mem') <> '1234kB' and to_regclass('rest') is null"),
        true,
      )
      assert.equal(await value(next, "select count(*)::int from pg_prepared_statements where name = 'p'"), 0)
      assert.equal(await value(next, 'select count(*)::int from arrived'), 0)
      await next.end()
      await sessions("state <> 'idle'", 0)
    })
})

test('a client that disconnects while it waits for a session runs no query', async () => {
  const [holder, waiter] = [await pooled(), await raw()]
  await holder.query('begin')
  waiter.send(query("insert into item values (99, 'x')"))
  const gone = once(waiter.socket, 'close')
  waiter.socket.end()
  await gone
  await holder.query('commit')
  const next = await pooled()
  assert.equal(await value(next, 'select count(*)::int from item where id = 99'), 0)
  await end(holder, next)
})

test('a lost session: an idle client gets no error, a transaction fails, a partial answer disconnects', async () => {
  const [client, reading] = [await pooled(), await raw()]
  const pid = await value(client, 'select pg_backend_pid()')
  await watcher.query('select pg_terminate_backend($1, 5000)', [pid])
  // A query sent before the proxy has detected the end of its session fails; the connection goes on.
  const next = await value(client, 'select pg_backend_pid()').catch((error: unknown) => {
    assert.equal((error as pg.DatabaseError).code, '57P01')
    return value(client, 'select pg_backend_pid()')
  })
  assert.notEqual(next, pid)
  await client.query('begin')
  await watcher.query('select pg_terminate_backend($1)', [await value(client, 'select pg_backend_pid()')])
  // The code depends on whether the end or the query comes first.
  await assert.rejects(client.query('select 1'), { code: /^4000[13]$/ })
  await assert.rejects(client.query('select 1'), { code: '25P02' })
  await client.query('rollback')
  assert.equal(await value(client, 'select 1'), 1)
  reading.socket.pause()
  // In one row: an end between two rows can be reported as an error.
  reading.send(query('select repeat($$x$$, 100000000)'))
  await until(async () => {
    const { rowCount } = await watcher.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'ClientWrite'",
    )
    return rowCount === 1
  })
  reading.socket.resume()
  assert.equal((await reading.end()).at(-1), 'closed')
  assert.equal(await value(client, 'select 2'), 2)
  await client.end()
})

test('a COMMIT of a lost transaction fails', async () => {
  const client = await pooled()
  await client.query({ name: 'commit', text: 'commit' })
  for (const commit of [{ text: 'commit' }, { name: 'commit', text: 'commit' }, { text: ' END', values: [] }]) {
    await client.query("begin; insert into item values (5, 'lost')")
    const pid = await value(client, 'select pg_backend_pid()')
    await watcher.query('select pg_terminate_backend($1, 5000)', [pid])
    await assert.rejects(client.query(commit), { code: /^4000[13]$/ })
    assert.equal(await value(client, 'select count(*)::int from item'), 0)
  }
  await client.end()
})

test('a client that breaks the protocol during a COPY is disconnected, and the next is served', async () => {
  const [client, next] = [await raw(), await pooled()]
  client.send(parse('', 'copy arrived from stdin'), bind('', ''), execute(), parse('', 'select 1'), sync())
  const answer = await client.end()
  assert.match(String(answer), /E 08P01 .*,closed$/)
  assert.equal(await value(next, 'select 1'), 1)
  await next.end()
})

test('a COPY whose client leaves after its error costs the next client nothing', async () => {
  // Postgres ignores the Sync sent with the COPY, and skips the next messages until another one.
  for (const last of [terminate(), flush()]) {
    const [client, next] = [await raw(), await pooled()]
    client.send(parse('', 'copy account from stdin'), bind('', ''), execute(), sync())
    assert.deepEqual(await client.next(3), ['1', '2', 'G'])
    const failure = client.next(1)
    client.send(copyData('x\ty\n'), copyDone())
    assert.match(String(await failure), /^E 22P02/)
    client.send(last)
    const served = value(next, 'select 1')
    client.close()
    assert.equal(await served, 1)
    await next.end()
  }
})

test('startup parameters follow the client in every notation', async () => {
  const endpoint = `endpoint=${scene.host('pooled')}`
  const shown = async (options: string, name: string): Promise<unknown> => {
    const client = await pooled({ options: `${endpoint} ${options}` })
    const answer = await value(client, `show ${name}`)
    await client.end()
    return answer
  }
  assert.equal(await shown('  -c    datestyle=German,\\ YMD', 'datestyle'), 'German, YMD')
  assert.equal(await shown('-c timezone=Europe/Lisbon  -c datestyle=German,\\ YMD', 'timezone'), 'Europe/Lisbon')
  assert.equal(await shown('-ctimezone=Europe/Lisbon  -cdatestyle=German,\\ YMD', 'datestyle'), 'German, YMD')
  assert.equal(await shown('--timezone=Europe/Lisbon', 'timezone'), 'Europe/Lisbon')
  assert.equal(await shown('-c t\\imezone=\\E\\u\\r\\o\\pe/Lisbon', 'timezone'), 'Europe/Lisbon')
  assert.equal(await shown('-c extra_float_digits=2', 'extra_float_digits'), '1')
  assert.equal(await shown(`-c extra_float_digits=${'1'.repeat(5_000)}`, 'extra_float_digits'), '1')
  assert.equal(await shown("--application-name=it's\\ \\\\odd", 'application_name'), "it's \\odd")
  assert.equal(await shown('-c search_path=pg_catalog', 'search_path'), 'pg_catalog')
  for (const options of ['-d', '-c timezone', '-c enable_seqscan=off', '-c'])
    await assert.rejects(shown(options, 'timezone'), { code: '0A000', message: /unsupported startup parameter/ })
})

test('reported settings follow their client from session to session', async () => {
  const [one, other] = [await pooled(), await pooled()]
  const settings: Record<string, [string, string, string, string]> = {
    intervalstyle: ['sql_standard', 'postgres', 'sql_standard', 'postgres'],
    standard_conforming_strings: ['off', 'on', 'off', 'on'],
    timezone: ["'Europe/Amsterdam'", "'Europe/Rome'", 'Europe/Amsterdam', 'Europe/Rome'],
    datestyle: ['PostgreSQL,European', 'ISO,US', 'Postgres, DMY', 'ISO, MDY'],
    application_name: ["E'o\\'ne \\\\'", "''", "o'ne \\", ''],
    client_encoding: ['LATIN1', 'UTF8', 'LATIN1', 'UTF8'],
    search_path: ['a, "b c"', '$user', 'a, "b c"', '"$user"'],
  }
  for (const [name, [first, second]] of Object.entries(settings)) {
    await one.query(`set ${name} to ${first}`)
    await other.query(`set ${name} to ${name === 'search_path' ? '"$user"' : second}`)
  }
  for (const [name, [, , first, second]] of Object.entries(settings)) {
    assert.equal(await value(one, `show ${name}`), first)
    assert.equal(await value(other, `show ${name}`), second)
  }
  await one.query('set default_transaction_read_only = true')
  assert.equal(await value(other, 'show transaction_read_only'), 'off')
  await end(one, other)
})

test('a missing database, a role without login, and a role with a connection limit', async () => {
  await assert.rejects(pooled({ database: 'nowhere' }), { code: '3D000', message: /"nowhere" does not exist/ })
  await watcher.query("create role bob login password 'correct horse' connection limit 1")
  const two = scene.proxy
  const [first, second] = [await pooled({ user: 'bob' }, two), await pooled({ user: 'bob' }, two)]
  await first.query('begin')
  const waiting = value(second, 'select 1')
  await first.query('commit')
  assert.equal(await waiting, 1)
  await watcher.query('alter role bob nologin')
  await watcher.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'bob'")
  await sessions('true', 0, 'bob')
  await assert.rejects(first.query('select 1'), { code: '28000', message: /not permitted to log in/ })
  await watcher.query('alter role bob login')
  // The refused session counts until its process has ended.
  const again = () =>
    value(first, 'select 1').catch((error: unknown) => {
      if ((error as pg.DatabaseError).code !== '53300') throw error
    })
  assert.equal(await until(again), 1)
  await end(first, second)
  await sessions('true', 1, 'bob')
})

test('a database that is dropped and created again serves its clients', async () => {
  await watcher.query('create database fleeting')
  const client = await pooled({ database: 'fleeting' })
  assert.equal(await value(client, 'select 1'), 1)
  await watcher.query('drop database fleeting with (force)')
  await assert.rejects(client.query('select 1'), { code: '3D000' })
  await watcher.query('create database other')
  await watcher.query('alter database other rename to fleeting')
  assert.equal(await value(client, 'select current_database()'), 'fleeting')
  await client.end()
})
