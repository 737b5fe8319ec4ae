import assert from 'node:assert/strict'
import { after, before, test as nodeTest } from 'node:test'
import pg from 'pg'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { connect, PASSWORD } from '../proxy/fixture.ts'
import { makeScene, type Scene } from '../proxy/protocol.ts'
import { rawClient, run, sync } from '../proxy/protocol_client.ts'
import { type SqlOverHttp, sqlOverHttp, uriOf } from '../proxy/sql_over_http.ts'

/* A pooled client tries to leave state in a session for the next client of that session. */

const test = (name: string, body: () => Promise<void>): void => void nodeTest(name, { timeout: 60_000 }, body)

let scene: Scene
/** A proxy with one session for all clients of a pool. */
let single: Proxy
let http: SqlOverHttp

before(async () => {
  scene = await makeScene()
  single = await scene.fixture.proxy({ poolSize: 1 })
  http = sqlOverHttp(scene.fixture, single, scene.endpoint)
  await asSuperuser(`
    create role auditor; grant auditor to alice;
    set role alice;
    create table note (id serial primary key, tenant text, body text);
    insert into note (tenant, body) values ('1', 'one'), ('2', 'two');
    alter table note enable row level security;
    alter table note force row level security;
    create policy own on note using (tenant = current_setting('app.tenant', true));
    create function become(tenant text) returns text language sql as
      $$ select set_config('app.tenant', tenant, false) $$;
    create view becoming as select become('2');`)
})
after(async () => {
  http.agent.destroy()
  await scene.fixture.close()
})

async function asSuperuser(sql: string): Promise<void> {
  const { socketDir } = scene.fixture.compute
  const client = new pg.Client({ host: socketDir, user: 'postgres', password: PASSWORD, database: 'postgres' })
  await client.connect()
  await client.query(sql)
  await client.end()
}

const pooled = (more: pg.ClientConfig = {}): Promise<pg.Client> => connect(single.port, scene.host('pooled'), more)

async function value(client: pg.Client, sql: string | pg.QueryConfig): Promise<unknown> {
  return Object.values((await client.query<Record<string, unknown>>(sql)).rows[0] ?? {})[0]
}

/** The statement of one client, the query of the next, and its result in a fresh session. */
const ATTACKS: Record<string, readonly [leave: string, look: string, clean: unknown]> = {
  'a tenant by set_config': [`select set_config('app.tenant', '2', false)`, 'select count(*)::int from note', 0],
  'a tenant by a function': [`select become('2')`, 'select count(*)::int from note', 0],
  'a tenant by a view': ['select * from becoming', 'select count(*)::int from note', 0],
  'a tenant by DO': [`do $$ begin perform become('2'); end $$`, 'select count(*)::int from note', 0],
  'a tenant by an INSERT': [`insert into item select 0 where become('2') is null`, 'select count(*)::int from note', 0],
  'a role': [`select set_config('role', 'auditor', false)`, 'select current_user::text', 'alice'],
  row_security: [`select set_config('row_security', 'off', false)`, 'show row_security', 'on'],
  'a time-out': [`select set_config('statement_timeout', '12345', false)`, 'show statement_timeout', '0'],
  'a time-out by DO': [`do $$ begin set lock_timeout = 777; end $$`, 'show lock_timeout', '0'],
  'a table by CREATE TABLE AS': ['create temp table left_as as select 7', `select to_regclass('left_as')::text`, null],
  'a table by SELECT INTO': ['select 7 into temp left_into', `select to_regclass('left_into')::text`, null],
  'a table by DO': [
    'do $$ begin create temp table left_do (n int); end $$',
    `select to_regclass('left_do')::text`,
    null,
  ],
  'a view': ['create temp view left_view as select 7', `select to_regclass('left_view')::text`, null],
  'a statement by DO': [
    `do $$ begin execute 'prepare theirs as select 7'; end $$`,
    'select count(*)::int from pg_prepared_statements where from_sql',
    0,
  ],
  'a channel by DO': [
    `do $$ begin execute 'listen news'; end $$`,
    'select count(*)::int from pg_listening_channels()',
    0,
  ],
  'a cursor by DO': [
    `do $$ begin execute 'declare theirs cursor with hold for select 7'; end $$`,
    `select count(*)::int from pg_cursors where name = 'theirs'`,
    0,
  ],
  'an advisory lock': [
    'select pg_advisory_lock(7)',
    `select count(*)::int from pg_locks where locktype = 'advisory'`,
    0,
  ],
  'a value of a sequence': [`select nextval('note_id_seq')`, `select currval('note_id_seq')`, '55000'],
}

for (const [name, [leave, look, clean]] of Object.entries(ATTACKS))
  test(`the next client of a session does not see ${name}`, async () => {
    const [attacker, next] = [await pooled(), await pooled()]
    await attacker.query(leave)
    const met = await value(next, look).catch((error: unknown) => (error as pg.DatabaseError).code)
    await Promise.all([attacker.end(), next.end()])
    assert.equal(met, clean)
  })

test('a client cannot replace the prepared statement of another client', async () => {
  const [victim, attacker] = [await pooled(), await pooled()]
  const mine = { name: 'mine', text: 'select 1 as mine' }
  assert.equal(await value(victim, mine), 1)
  await attacker.query({ name: 'theirs', text: 'select 1 as mine' })
  await attacker.query(`
    do $$ declare called text; begin
      for called in select name from pg_prepared_statements loop
        execute format('deallocate %I', called);
        execute format('prepare %I as select 666 as mine', called);
      end loop;
    end $$`)
  assert.equal(await value(victim, mine), 1)
  await Promise.all([victim.end(), attacker.end()])
})

test('a prepared statement is planned with the settings of its own client', async () => {
  const [tokyo, utc] = [await pooled(), await pooled()]
  await tokyo.query(`set timezone = 'Asia/Tokyo'`)
  await utc.query(`set timezone = 'UTC'`)
  const midnight = { name: 'midnight', text: `select extract(epoch from '2026-01-01 00:00'::timestamptz)::int as at` }
  assert.equal(await value(tokyo, midnight), Date.parse('2026-01-01T00:00:00+09:00') / 1000)
  assert.equal(await value(utc, midnight), Date.parse('2026-01-01T00:00:00Z') / 1000)
  await Promise.all([tokyo.end(), utc.end()])
})

for (const kind of ['direct', 'pooled'] as const)
  test(`a request over HTTP does not see the tenant of the previous request, ${kind}`, async () => {
    const headers = { 'neon-connection-string': uriOf(scene.host(kind)) }
    const tenants: unknown[] = []
    for (let round = 0; round < 6; round++) {
      await http.rows(
        `select set_config('app.tenant', '2', false), set_config('timezone', 'Asia/Tokyo', false)`,
        headers,
      )
      const [row] = await http.rows(
        `select coalesce(current_setting('app.tenant', true), '') || current_setting('timezone') as left,
                (select count(*)::int from note)`,
        headers,
      )
      tenants.push(row)
    }
    assert.deepEqual(
      tenants.filter((row) => (row as { count: number }).count > 0 || (row as { left: string }).left !== 'Etc/UTC'),
      [],
    )
  })

/** Leaves a session that cannot be reset: dropping its many tables takes longer than the statement timeout it sets. */
async function preventReset(client: pg.Client): Promise<unknown> {
  await client.query(
    `do $$ begin for n in 1..500 loop execute format('create temp table %I ()', 'left_' || n); end loop; end $$`,
  )
  const { rows } = await client.query<{ pid: number }>(
    `select set_config('statement_timeout', '1', false), become('2'), pg_backend_pid() as pid`,
  )
  return rows[0]?.pid
}

test('a session is closed when its reset fails, and the next request runs once in another session', async () => {
  const [attacker, next] = [await pooled(), await pooled()]
  const used = await preventReset(attacker)
  await next.query('insert into item values (70)')
  assert.equal(await value(next, 'select count(*)::int from item where id = 70'), 1)
  assert.equal(await value(next, 'select count(*)::int from note'), 0)
  assert.notEqual(await value(next, 'select pg_backend_pid()'), used)
  await Promise.all([attacker.end(), next.end()])
})

test('pipelined requests do not run in a session whose reset fails', async () => {
  const { way } = scene
  const next = await rawClient({ ...way('pooled'), to: { port: single.port } })
  const attacker = await pooled()
  await preventReset(attacker)
  next.send(run('insert into item values (71)'), sync(), run('select count(*) from note'), sync())
  assert.deepEqual(await next.answer(), ['1', '2', 'C INSERT 0 1', 'Z I'])
  assert.deepEqual(await next.answer(), ['1', '2', 'D 0', 'C SELECT 1', 'Z I'])
  next.close()
  await attacker.end()
})

test('an idle session releases its advisory lock while its client stays connected', async () => {
  const [holder, direct] = [await pooled(), await connect(single.port, scene.host('direct'))]
  await holder.query('select pg_advisory_lock(75)')
  await direct.query('select pg_advisory_lock(75)')
  await Promise.all([holder.end(), direct.end()])
})
