import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { postmastersOf, until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/* A schema-only branch has all objects of another branch, and none of its data. */

let neap: Neap
let main: Place

before(async () => {
  neap = await startNeap()
  main = await firstPlace(neap)
})

after(() => neap?.stop())

async function schemaOnly(parent: Place, moment: object = {}): Promise<Place> {
  const { status, body } = await send(neap, 'POST', `/projects/${parent.project_id}/branches`, {
    body: {
      branch: { parent_id: parent.branch_id, init_source: 'schema-only', ...moment },
      endpoints: [{ type: 'read_write' }],
    },
  })
  assert.equal(status, 201, JSON.stringify(body))
  const { branch, endpoints, operations } = body as unknown as {
    branch: { id: string; init_source: string; parent_id?: string }
    endpoints: { id: string }[]
    operations: { id: string; project_id: string }[]
  }
  assert.deepEqual([branch.init_source, branch.parent_id], ['schema-only', undefined])
  await neap.ended(operations)
  const endpoint_id = endpoints[0]?.id ?? ''
  const uri = parent.uri.replace(parent.endpoint_id, endpoint_id)
  return { project_id: parent.project_id, branch_id: branch.id, endpoint_id, uri }
}

const diffOf = async ({ project_id, branch_id }: Place, base: Place, db_name = 'neondb') => {
  const { diff } = await neap.call('GET /projects/:project_id/branches/:branch_id/compare_schema', {
    params: { project_id, branch_id },
    query: { db_name, base_branch_id: base.branch_id },
  })
  return diff
}

test('it has the tables, sequences, views, triggers and databases of its parent, all of them empty', async () => {
  await query(neap, main.uri, 'create database "other ""one"')
  const other = main.uri.replace('/neondb?', `/${encodeURIComponent('other "one')}?`)
  await query(neap, other, 'create table secret (t text); insert into secret values ($$s$$)')
  await query(
    neap,
    main.uri,
    `create schema "Sch""ema";
     create table "Sch""ema".parent (id serial primary key, t text);
     create table child (id int generated always as identity, parent_id int references "Sch""ema".parent, t text);
     create table parted (id int, t text) partition by range (id);
     create table parted_1 partition of parted for values from (0) to (1000);
     create index on child (lower(t)); create statistics pair on parent_id, t from child;
     insert into "Sch""ema".parent (t) select 'p' || i from generate_series(1, 500) i;
     insert into child (parent_id, t) select i, 'c' || i % 7 from generate_series(1, 500) i;
     insert into parted select i, 'x' from generate_series(1, 500) i;
     create materialized view sums as select count(*) as n from child;
     select lo_from_bytea(0, 'large');
     analyze`,
  )
  const empty = await schemaOnly(main)
  assert.equal(await diffOf(empty, main), '')
  assert.equal(await diffOf(empty, main, 'other "one'), '')
  const [counts] = await query(
    neap,
    empty.uri,
    `select (select count(*)::int from "Sch""ema".parent) as parent, (select count(*)::int from child) as child,
            (select count(*)::int from parted) as parted, (select count(*)::int from pg_largeobject_metadata) as large,
            (select count(*)::int from pg_stats where schemaname in ('public', 'Sch"ema')) as samples,
            (select relispopulated from pg_class where relname = 'sums') as populated`,
  )
  assert.deepEqual(counts, { parent: 0, child: 0, parted: 0, large: 0, samples: 0, populated: false })
  const inOther = other.replace(main.endpoint_id, empty.endpoint_id)
  assert.deepEqual(await query(neap, inOther, 'select * from secret'), [])
  assert.deepEqual(await query(neap, empty.uri, `insert into child (t) values ('first') returning id`), [{ id: 1 }])
  assert.deepEqual(await query(neap, main.uri, 'select count(*)::int as n from child'), [{ n: 500 }])
})

test('no code of a tenant runs while its data are removed, and triggers are as they were', async () => {
  await query(
    neap,
    main.uri,
    `create table ran (as_user text);
     create function escalate() returns trigger language plpgsql as $$
     begin
       insert into ran values (current_user);
       execute format('alter role %I superuser', session_user);
       return null;
     end $$;
     create table watched (id int); insert into watched values (1);
     create table referring (id int);
     create trigger always before truncate on watched execute function escalate();
     create trigger replica after truncate on watched execute function escalate();
     create trigger usual before truncate on watched execute function escalate();
     alter table watched enable always trigger always;
     alter table watched enable replica trigger replica`,
  )
  const empty = await schemaOnly(main)
  assert.deepEqual(await query(neap, empty.uri, 'select * from ran'), [])
  assert.deepEqual(await query(neap, empty.uri, 'select count(*)::int as n from watched'), [{ n: 0 }])
  assert.deepEqual(
    await query(neap, empty.uri, 'select tgname, tgenabled::text from pg_trigger where not tgisinternal order by 1'),
    [
      { tgname: 'always', tgenabled: 'A' },
      { tgname: 'replica', tgenabled: 'R' },
      { tgname: 'usual', tgenabled: 'O' },
    ],
  )
})

test('it has the schema of a moment, and no past of its own before', async () => {
  const [now] = await query<{ at: string }>(
    neap,
    main.uri,
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
  )
  await query(neap, main.uri, 'create table later (id int)')
  const early = await schemaOnly(main, { parent_timestamp: now?.at })
  assert.match(await diffOf(early, main), /^-?.*later/m)
  const past = await send(neap, 'POST', `/projects/${main.project_id}/branches`, {
    body: { branch: { parent_id: early.branch_id, parent_timestamp: now?.at } },
  })
  assert.equal(past.status, 422, JSON.stringify(past.body))
})

test('nothing is left in template1, large objects, sequences that were set, or by functions of indexes', async () => {
  await query(neap, main.uri.replace('/neondb?', '/template1?'), `select lo_from_bytea(0, 'in template1')`)
  await query(
    neap,
    main.uri,
    `create sequence was_set; select setval('was_set', 4242, false);
     select lo_from_bytea(0, convert_to('large ' || i % 3, 'UTF8')) from generate_series(1, 60) i;
     analyze pg_largeobject;
     create table first_one (a int);
     create table last_one (t text);
     create function copies(i int) returns int immutable language plpgsql as $$ begin return i; end $$;
     insert into first_one values (1);
     create index on first_one ((a + copies(1)));
     insert into last_one values ('secret');
     create table stash (t text, who text);
     create function stash() returns int volatile language plpgsql as $$ begin
       insert into public.stash select t, session_user from public.last_one; return 1; end $$;
     create or replace function copies(i int) returns int immutable language plpgsql as $$ begin
       if session_user = 'neap_admin' then perform public.stash(); end if; return i; end $$`,
  )
  const empty = await schemaOnly(main)
  const [left] = await query(
    neap,
    empty.uri,
    `select (select count(*) from stash)::int as stashed, (select last_value from was_set)::int as sequence,
            (select count(*) from pg_statistic where starelid = 'pg_largeobject'::regclass)::int as samples`,
  )
  assert.deepEqual(left, { stashed: 0, sequence: 1, samples: 0 })
  const objects = 'select oid from pg_largeobject_metadata'
  assert.deepEqual(await query(neap, empty.uri.replace('/neondb?', '/template1?'), objects), [])
})

test('one whose data cannot be removed fails with the reason, and holds up no deletion', async () => {
  await query(neap, main.uri, 'create database closed')
  await query(neap, main.uri, 'alter database closed allow_connections false')
  // Each session of theirs would have it.
  const spoilt = `alter database neondb set local_preload_libraries = 'absent';
                  alter database neondb set role = 'pg_monitor'`
  await query(neap, main.uri, spoilt)
  await assert.rejects(schemaOnly(main), /the database "closed" accepts no connections/)
  const { branches } = await neap.call('GET /projects/:project_id/branches', {
    params: main,
    query: { sort_by: 'created_at', limit: 1 },
  })
  const params = { project_id: main.project_id, branch_id: branches[0]?.id ?? '' }
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params })
  await neap.ended(operations)
})

test('a stop of Neap ends the compute of a branch that is being made, which goes on after the next start', async () => {
  const first = await startNeap()
  const place = await firstPlace(first)
  await query(
    first,
    place.uri,
    `create table slow (a int);
     create function waits(i int) returns int immutable language plpgsql as $$ begin return i; end $$;
     insert into slow values (1);
     create index on slow ((a + waits(1)));
     create or replace function waits(i int) returns int immutable language plpgsql as $$ begin
       if session_user = 'neap_admin' then perform pg_sleep(5); end if;
       return i; end $$`,
  )
  const { branch } = await first.call('POST /projects/:project_id/branches', {
    params: { project_id: place.project_id },
    body: { branch: { parent_id: place.branch_id, init_source: 'schema-only' } },
  })
  const directory = join(first.ready.data_dir, 'branches', branch.id)
  await until('its compute runs', () => postmastersOf(directory).length > 0)
  await first.stop({ keep: true })
  const next = await startNeap({ dataDir: first.ready.data_dir })
  try {
    await until('it is made', async () => {
      const params = { project_id: place.project_id, branch_id: branch.id }
      const now = await next.call('GET /projects/:project_id/branches/:branch_id', { params })
      return now.branch.current_state === 'ready'
    })
  } finally {
    await next.stop()
  }
})
