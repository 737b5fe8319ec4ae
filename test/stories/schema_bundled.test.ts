import assert from 'node:assert/strict'
import pg from 'pg'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { runBundledPgDump } from '../../src/compute_admin/bundled_pg_dump.ts'
import { superuser } from '../admin.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace } from '../project.ts'

/* The pg_dump that npm brings, compared with the distribution's where that is installed for the same server version. */

const NATIVE = '/usr/lib/postgresql/15/bin/pg_dump'
const run = promisify(execFile)

/** One of each kind of object that ordinary schemas have. */
const SCHEMA = `
  create extension btree_gist;
  create extension pg_trgm;
  create role reader nologin;
  create schema app;
  comment on schema app is 'it''s the "app"';
  create type app.mood as enum ('sad', 'ok', 'a''b');
  create type app.pair as (one int, other text collate "C");
  create type app.span as range (subtype = float8, subtype_diff = float8mi);
  create domain app.positive as int default 1 check (value > 0);
  create collation app.plain (locale = 'C');
  create sequence app.numbers increment by 5 minvalue -10 cycle;
  create table app.person (
    id bigint generated always as identity primary key,
    code text not null default 'x' || nextval('app.numbers') unique,
    "Größe" numeric(10, 2) check ("Größe" >= 0),
    mood app.mood default 'ok',
    tags text[] not null default '{}',
    data jsonb,
    doubled numeric generated always as ("Größe" * 2) stored,
    during tstzrange,
    exclude using gist (during with &&)
  );
  comment on column app.person.mood is 'how it goes';
  create table app.item (
    id serial primary key,
    person bigint not null references app.person on delete cascade deferrable initially deferred,
    amount app.positive,
    constraint twice unique (person, amount) include (id)
  ) with (fillfactor = 70);
  create index on app.person using gin (data jsonb_path_ops);
  create index similar_code on app.person using gist (code gist_trgm_ops) where mood = 'ok';
  create unique index lower_code on app.person (lower(code) desc nulls last);
  create statistics app.related (dependencies) on person, amount from app.item;
  create table app.log (at timestamptz not null, what text) partition by range (at);
  create table app.log_2026 partition of app.log for values from ('2026-01-01Z') to ('2027-01-01Z');
  create table app.log_rest partition of app.log default;
  create index on app.log (at);
  create table app.parent (a int); create table app.child (b int) inherits (app.parent);
  create unlogged table app.scratch (a int);
  create view app.people with (security_barrier) as
    select id, code from app.person where "Größe" > 1 with check option;
  create materialized view app.totals as select person, sum(amount) as total from app.item group by person with no data;
  create unique index on app.totals (person);
  create function app.twice(a int, b int default 2) returns int language sql immutable strict parallel safe
    as $$ select a * b $$;
  create function app.touch() returns trigger language plpgsql
    as $$ begin new.code := lower(new.code); return new; end $$;
  create function app.rows(out a int, out b text) returns setof record language sql
    begin atomic; select 1 as a, 'x'::text as b; end;
  create procedure app.tidy() language plpgsql security definer set search_path = app
    as $p$ begin delete from app.scratch; end $p$;
  create aggregate app.total(int) (sfunc = int4pl, stype = int, initcond = '0');
  create operator app.=~= (leftarg = text, rightarg = text, function = texteq);
  create cast (app.mood as int) with inout;
  create trigger touches before insert or update of code on app.person
    for each row when (new.mood is not null) execute function app.touch();
  alter table app.person disable trigger touches;
  create rule ignore as on delete to app.people do instead nothing;
  alter table app.person enable row level security; alter table app.person force row level security;
  create policy own on app.person as restrictive for select to reader using (code = current_user);
  grant usage on schema app to reader; grant select (id, code), update (mood) on app.person to reader;
  grant execute on function app.twice to reader with grant option; revoke execute on function app.twice from public;
  alter default privileges in schema app grant select on tables to reader;
  create text search configuration app.words (copy = simple);
  create publication everything for table app.person (id, code) where (id > 0);
  alter table app.item cluster on item_pkey; alter table app.person replica identity full;
  create foreign data wrapper nothing; create server far foreign data wrapper nothing options (a 'b');
  create foreign table app.remote (a int) server far options (c 'd');
  comment on function app.twice(int, int) is E'multi\\nline';
`

let neap: Neap

before(async () => {
  neap = await startNeap()
})
after(() => neap?.stop())

interface Server {
  readonly admin: pg.Client
  dump(database: string): Promise<string>
  query(database: string, sql: string): Promise<void>
}

async function serverOf(place: Parameters<typeof superuser>[1]): Promise<Server> {
  const admin = await superuser(neap, place)
  const { host, port, user, password } = admin as pg.Client & { password: string }
  return {
    admin,
    async dump(database) {
      const connection = `user='${user}' password='${password}' dbname='${database}'`
      const request = { connection, options: ['--schema-only'] }
      const reply = await runBundledPgDump({ host, port }, request, AbortSignal.timeout(60_000))
      assert.ok(typeof reply === 'object' && 'sql' in reply, JSON.stringify(reply))
      return reply.sql
    },
    async query(database, sql) {
      const client = new pg.Client({ host, port, user, password, database })
      await client.connect()
      try {
        await client.query(sql)
      } finally {
        await client.end()
      }
    },
  }
}

/** Creates a database with this schema, and a second one from the bundled pg_dump's output. */
async function copied(server: Server): Promise<string> {
  await server.admin.query('create database rich')
  await server.query('rich', SCHEMA)
  const sql = await server.dump('rich')
  await server.admin.query('create database copy')
  // Every pg_dump 18 sets this parameter; older servers do not know it.
  await server.query('copy', sql.replace('SET transaction_timeout = 0;\n', ''))
  return sql
}

test('the output of the bundled pg_dump recreates the schema', async (t) => {
  const server = await serverOf(await firstPlace(neap))
  t.after(() => server.admin.end())
  const sql = await copied(server)
  for (const words of [
    'CREATE POLICY own',
    'CREATE TRIGGER touches',
    'COMMENT ON COLUMN',
    'GENERATED ALWAYS AS IDENTITY',
    'ATTACH PARTITION',
  ])
    assert.ok(sql.includes(words), words)
  assert.equal(await server.dump('copy'), sql)
})

test(
  'the system pg_dump prints the same for the original and the recreated schema',
  { skip: !existsSync(NATIVE) && 'postgresql-15 not installed' },
  async (t) => {
    const made = await neap.call('POST /projects', { body: { project: { pg_version: 15 } } })
    await neap.ended(made.operations)
    const place = {
      project_id: made.project.id,
      branch_id: made.branch.id,
      endpoint_id: made.endpoints[0]?.id ?? '',
      uri: '',
    }
    const server = await serverOf(place)
    t.after(() => server.admin.end())
    await copied(server)
    const { host, port, user, password } = server.admin as pg.Client & { password: string }
    const native = async (database: string) => {
      const env = { PGHOST: host, PGPORT: String(port), PGUSER: user, PGPASSWORD: password, LC_ALL: 'C' }
      const { stdout } = await run(NATIVE, ['--schema-only', database], { env, maxBuffer: 2 ** 24 })
      // A random token.
      return stdout.replaceAll(/^\\(un)?restrict .*$/gm, '')
    }
    const text = await native('rich')
    assert.ok(text.split('\n').length > 400)
    assert.equal(await native('copy'), text)
  },
)

test('the bundled pg_dump reports errors, and a kill ends it', async (t) => {
  const server = await serverOf(await firstPlace(neap))
  t.after(() => server.admin.end())
  const { host, port, user } = server.admin
  const ask = (connection: string, signal = AbortSignal.timeout(60_000), at = { host, port }) =>
    runBundledPgDump(at, { connection, options: ['--schema-only'] }, signal)
  const complaint = async (reply: ReturnType<typeof ask>) => ((await reply) as { complaint: string }).complaint
  assert.match(await complaint(ask(`user='${user}' password='wrong'`)), /password authentication failed/)
  assert.match(await complaint(ask('', undefined, { host: '/nowhere', port })), /ENOENT/)
  assert.equal(await ask(`user='${user}'`, AbortSignal.abort()), undefined)
})
