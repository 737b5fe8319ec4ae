import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { connect, observer } from '../proxy/fixture.ts'
import { makeScene, type Scene } from '../proxy/protocol.ts'
import { type Random, randomOf } from '../random.ts'

/*
 * Random pooled clients execute random statements that change a session. Witnesses, which change no state, compare
 * their session state with that of a fresh session. NEAP_FUZZ_SEED repeats a run, and NEAP_FUZZ_STEPS sets its length.
 */

const SEED = Number(process.env['NEAP_FUZZ_SEED'] ?? Date.now() % 1_000_000)
const STEPS = Number(process.env['NEAP_FUZZ_STEPS'] ?? 400)
const POOL_SIZE = 2
const ACTORS = 5

/** The state of a session, besides the settings that follow its client. */
const STATE = `
  select json_build_object(
    'settings', (select json_object_agg(name, setting order by name) from pg_catalog.pg_settings),
    'tenant', coalesce(current_setting('app.tenant', true), ''),
    'own', coalesce(current_setting('fuzz.own', true), ''),
    'user', current_user, 'session_user', session_user,
    'schemas', (select json_agg(s) from unnest(current_schemas(true)) s where s !~ '^pg_temp'),
    'temporary', (select json_agg(relname order by relname) from pg_catalog.pg_class
                   where relnamespace = pg_my_temp_schema()),
    'functions', (select json_agg(proname) from pg_catalog.pg_proc where pronamespace = pg_my_temp_schema()),
    'types', (select count(*) from pg_catalog.pg_type where typnamespace = pg_my_temp_schema()),
    'prepared', (select json_agg(name) from pg_catalog.pg_prepared_statements where statement <> 'select 7 as mine'),
    'channels', (select json_agg(c) from pg_listening_channels() c),
    'cursors', (select json_agg(name) from pg_catalog.pg_cursors where name <> ''),
    'locks', (select json_agg(objid) from pg_catalog.pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
    'sequence', fuzz_currval()
  )::text as state`

const SET_UP = `
  create role auditor;
  grant auditor to alice;
  set role alice;
  create sequence fuzz_seq;
  create function fuzz_currval() returns text language plpgsql as $$
    begin return currval('fuzz_seq'); exception when others then return sqlstate; end $$;
  create function fuzz_do(sql text) returns text language plpgsql as $$ begin execute sql; return sql; end $$;
  create table fuzz_table (sql text);
  create function fuzz_trigger() returns trigger language plpgsql as $$ begin execute new.sql; return null; end $$;
  create trigger fuzz before insert on fuzz_table for each row execute function fuzz_trigger();
  create view fuzz_view as select fuzz_do('set work_mem = ''1111kB''') as did;`

/**
 * Statements that change a session and persist unless it is reset. Those of the second list cannot run in a function.
 */
const CHANGES: readonly string[] = [
  `set app.tenant = '7'`,
  `set fuzz.own = 'x'`,
  `set statement_timeout = '54s'`,
  `set lock_timeout = '54s'`,
  'set row_security = off',
  'set role auditor',
  'set session authorization alice',
  `set search_path = pg_temp, public`,
  `set timezone = 'Asia/Tokyo'`,
  `set application_name = 'left'`,
  'set default_transaction_read_only = on',
  `set datestyle = 'German'`,
  'set enable_seqscan = off',
  `set plan_cache_mode = 'force_generic_plan'`,
  `set session characteristics as transaction isolation level serializable`,
  'create temp table if not exists left_table (n serial primary key)',
  'create temp table if not exists left_as as select 1 as n',
  'create or replace temp view left_view as select 1 as n',
  'create temp sequence if not exists left_sequence',
  `do $$ begin create type pg_temp.left_type as enum ('a'); exception when duplicate_object then null; end $$`,
  'create or replace function pg_temp.left_function() returns int language sql as $$ select 1 $$',
  'prepare left_statement as select 1',
  'declare left_cursor cursor with hold for select 1',
  `select pg_advisory_lock(77)`,
  `select pg_advisory_lock_shared(78)`,
  `select nextval('fuzz_seq')`,
  `select set_config('app.tenant', '8', false)`,
  `select set_config('role', 'auditor', false)`,
  `select set_config('timezone', 'Europe/Rome', false)`,
  'deallocate all',
]
const ALONE: readonly string[] = [
  'discard temp',
  'discard plans',
  'reset all',
  'table fuzz_view',
  'select 1/0',
  'nonsense',
  `begin; set app.tenant = '9'; commit`,
  `begin; set app.tenant = '9'; rollback`,
  `begin; set local app.tenant = '9'; select pg_advisory_lock(79); commit`,
  `begin; declare open_cursor cursor for select 1; select 1/0`,
]

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** A statement that makes a change, in one of the ways in which clients can hide it. */
function statement(random: Random): string {
  if (random.chance(0.2)) return random.pick(ALONE)
  const change = random.chance(0.1) ? 'listen left_channel' : random.pick(CHANGES)
  switch (change.startsWith('listen') ? random.between(2, 4) : random.between(1, 6)) {
    case 2:
      return `select fuzz_do(${quoted(change)})`
    case 3:
      return `do $fuzz$ begin execute ${quoted(change)}; end $fuzz$`
    case 4:
      return `insert into fuzz_table values (${quoted(change)})`
    case 5:
      return `select 1; ${change}; select 2`
    default:
      return change
  }
}

let scene: Scene
before(async () => {
  scene = await makeScene(18, POOL_SIZE)
  const superuser = await observer(scene.fixture)
  await superuser.query(SET_UP)
  await superuser.end()
})
after(() => scene.fixture.close())

const open = (kind: 'direct' | 'pooled', more: string): Promise<pg.Client> =>
  connect(scene.proxy.port, scene.host(kind), {
    application_name: 'witness',
    options: `endpoint=${scene.host(kind)} ${more}`,
  })

async function stateOf(client: pg.Client): Promise<unknown> {
  const { rows } = await client.query<{ state: string }>(STATE)
  return JSON.parse(rows[0]?.state ?? '')
}

/** Runs one statement of a client that changes sessions. Returns the client, or a new one when it has disconnected. */
async function act(client: pg.Client, random: Random): Promise<pg.Client> {
  const text = statement(random)
  const way = random.between(1, 4)
  const query = way === 1 ? { text, values: [] } : way === 2 ? { name: text.slice(0, 60), text } : { text }
  // Extended query messages take one statement: a refusal is a valid case as well.
  await client.query(query).catch(() => {})
  if (random.chance(0.8)) await client.query('rollback').catch(() => {})
  if (random.chance(0.9)) return client
  await client.end()
  return open('pooled', random.chance(0.5) ? '-c timezone=Asia/Tokyo' : '')
}

test(`a pooled client sees no session state of another, seed ${SEED}`, { timeout: 300_000 }, async () => {
  const random = randomOf(SEED, 'steps')
  const choices = ['', '-c timezone=Europe/Lisbon', '-c datestyle=SQL,\\ DMY -c search_path=pg_catalog,public']
  const witnesses = await Promise.all(
    choices.map(async (choice) => {
      const fresh = await open('direct', choice)
      const expected = await stateOf(fresh)
      await fresh.end()
      return { client: await open('pooled', choice), expected }
    }),
  )
  const actors = await Promise.all(Array.from({ length: ACTORS }, () => open('pooled', '')))
  for (let step = 0; step < STEPS; step++) {
    const index = random.between(0, ACTORS - 1)
    const did = randomOf(SEED, `step ${step}`)
    // An actor in a transaction occupies a session: roll back, so that the witness can have the last one.
    const [actor] = actors.slice(index, index + 1)
    assert.ok(actor)
    actors[index] = await act(actor, did)
    if (did.chance(0.3)) continue
    for (const other of actors) await other.query('rollback').catch(() => {})
    const witness = random.pick(witnesses)
    const { rows } = await witness.client.query({ name: 'mine', text: 'select 7 as mine' })
    assert.deepEqual(rows, [{ mine: 7 }], `seed ${SEED}, step ${step}: ${statement(randomOf(SEED, `step ${step}`))}`)
    await act(actors[0] ?? actor, random).then((client) => (actors[0] = client))
    await actors[0]?.query('rollback').catch(() => {})
    assert.deepEqual(
      await stateOf(witness.client),
      witness.expected,
      `seed ${SEED}, step ${step}: ${statement(randomOf(SEED, `step ${step}`))}`,
    )
  }
  await Promise.all([...actors, ...witnesses.map(({ client }) => client)].map((client) => client.end()))
})
