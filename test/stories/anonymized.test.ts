import assert from 'node:assert/strict'
import type { EventEmitter } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import type { ApiResponse } from '../../src/client.ts'
import { connect, query } from '../clients.ts'
import { refused, type Request, send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { enableReplication, firstPlace, type Place } from '../project.ts'

/* An anonymized branch has the data of its parent, masked by rules before a client may enter. */

let neap: Neap
let main: Place

before(async () => {
  neap = await startNeap()
  main = await firstPlace(neap)
  await query(
    neap,
    main.uri,
    `create table person (id int primary key, email text unique, name text, born date, salary numeric,
                          domain text generated always as (split_part(email, '@', 2)) stored);
     insert into person select i, 'real' || i || '@secret.org', 'Real ' || i, '1990-01-01', 1000 + i
       from generate_series(1, 300) i;
     create index on person (lower(name));
     create materialized view names as select name from person;
     create table payment (person_email text, amount int);
     insert into payment select 'real' || i || '@secret.org', i from generate_series(1, 300) i;
     analyze`,
  )
})

after(() => neap?.stop())

interface Rule {
  readonly table_name: string
  readonly column_name: string
  readonly masking_function?: string
  readonly masking_value?: string
  readonly schema_name?: string
  readonly database_name?: string
}

const full = (rules: readonly Rule[]) =>
  rules.map((rule) => ({ database_name: 'neondb', schema_name: 'public', ...rule }))

const RULES: readonly Rule[] = [
  { table_name: 'person', column_name: 'email', masking_function: 'anon.hash(email) || $$@example.com$$' },
  { table_name: 'person', column_name: 'name', masking_function: 'anon.fake_first_name()' },
  { table_name: 'person', column_name: 'born', masking_function: 'anon.random_date()' },
  { table_name: 'person', column_name: 'salary', masking_value: '0' },
  {
    table_name: 'payment',
    column_name: 'person_email',
    masking_function: 'anon.hash(person_email) || $$@example.com$$',
  },
]

type Status = ApiResponse<'GET /projects/:project_id/branches/:branch_id/anonymized_status'>

async function create(rules: readonly Rule[], start_anonymization: boolean, branch: object = {}) {
  const made = await neap.call('POST /projects/:project_id/branch_anonymized', {
    params: { project_id: main.project_id },
    body: {
      branch_create: { branch, endpoints: [{ type: 'read_write' }] },
      masking_rules: full(rules),
      start_anonymization,
    },
  })
  const endpoint_id = made.endpoints[0]?.id ?? ''
  const uri = main.uri.replace(main.endpoint_id, endpoint_id)
  return { ...made, place: { project_id: main.project_id, branch_id: made.branch.id, endpoint_id, uri } }
}

const http = ({ project_id, branch_id }: Place, method: string, rest = '', request?: Request) =>
  send(neap, method, `/projects/${project_id}/branches/${branch_id}${rest}`, request)

const statusOf = ({ project_id, branch_id }: Place): Promise<Status> =>
  neap.call('GET /projects/:project_id/branches/:branch_id/anonymized_status', { params: { project_id, branch_id } })

const settledAs = (place: Place, state: Status['state']) =>
  until(`the branch is ${state}`, async () => {
    const status = await statusOf(place)
    return status.state === state && status
  })

const anonymize = ({ project_id, branch_id }: Place) =>
  neap.call('POST /projects/:project_id/branches/:branch_id/anonymize', { params: { project_id, branch_id } })

/** The files of a branch's data directory that have a text somewhere. */
function filesWith({ branch_id }: Place, text: string): string[] {
  const pgdata = join(neap.ready.data_dir, 'branches', branch_id, 'pgdata')
  const files = readdirSync(pgdata, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const paths = files.map(({ parentPath, name }) => join(parentPath, name))
  return paths.filter((path) => readFileSync(path).includes(text))
}

const realRows = async ({ uri }: Place): Promise<number> => {
  const [row] = await query<{ count: number }>(
    neap,
    uri,
    `select (select count(*) from person where email like '%secret%' or name like 'Real%'
                                               or domain like '%secret%' or salary > 0)::int
          -- A random date may be this one.
          + coalesce((select count(*) from person where born = '1990-01-01' having count(*) > 5), 0)::int
          + (select count(*) from payment where person_email like '%secret%')::int
          + (select count(*) from names where name like 'Real%')::int
          + (select count(*) from pg_stats where most_common_vals::text ~ 'secret|Real'
                                              or histogram_bounds::text ~ 'secret|real|Real')::int as count`,
  )
  return row?.count ?? -1
}

test('a branch is masked as it is made: no row, view or statistic has a value of before', async () => {
  const { place, operations, branch } = await create(RULES, true)
  assert.equal(branch.anonymization_state, 'anonymizing')
  await neap.ended(operations)
  assert.equal(await realRows(place), 0)
  const rows = await query<{ count: number; joined: number; names: number }>(
    neap,
    place.uri,
    `select count(*)::int as count, count(distinct p.name)::int as names,
            (select count(*)::int from person join payment on email = person_email) as joined from person p`,
  )
  // Hashes of equal values are equal, in all tables.
  assert.deepEqual([rows[0]?.count, rows[0]?.joined], [300, 300])
  assert.ok((rows[0]?.names ?? 0) > 5)
  assert.deepEqual(await query(neap, place.uri, `select 1 from pg_namespace where nspname = 'anon'`), [])
  assert.deepEqual(await query(neap, place.uri, `select 1 from pg_roles where rolname = 'neap_masker'`), [])
  const { state, last_run } = await statusOf(place)
  assert.deepEqual([state, last_run?.masked_columns], ['anonymized', RULES.length])
  const [lsn] = await query<{ lsn: string }>(neap, main.uri, `select pg_current_wal_lsn()::text as lsn`)
  assert.equal(await realRows(main).then((count) => count > 900), true)
  // Code in the compute reads its files.
  assert.ok(filesWith(main, 'real7@secret.org').length > 0)
  assert.deepEqual(filesWith(place, 'real7@secret.org'), [])
  // Neither its own past nor its parent's is within reach.
  for (const moment of [{ parent_timestamp: branch.created_at }, { parent_lsn: lsn?.lsn }]) {
    const body = { branch: { parent_id: place.branch_id, ...moment } }
    refused(await send(neap, 'POST', `/projects/${place.project_id}/branches`, { body }), 422, 'NOT_ALLOWED', /history/)
  }
  const body = { source_branch_id: main.branch_id }
  refused(await http(place, 'POST', '/restore', { body }), 422, 'NOT_ALLOWED', /is an anonymized one/)
})

test('a branch that is not masked yet lets no client in, and is the source of no copy', async () => {
  const { place, operations } = await create([], false)
  assert.ok(!operations.some(({ action }) => action === 'start_compute'))
  await neap.ended(operations)
  await settledAs(place, 'initialized')
  await assert.rejects(query(neap, place.uri, 'select 1'), /not anonymized yet/)
  await assert.rejects(query(neap, place.uri.replace(/\./, '-pooler.'), 'select 1'), /not anonymized yet/)
  const { project_id, branch_id: parent_id, endpoint_id } = place
  const start = await send(neap, 'POST', `/projects/${project_id}/endpoints/${endpoint_id}/start`)
  refused(start, 422, 'NOT_ALLOWED', /not masked yet/)
  const copies: [string, string, object][] = [
    ['POST', `/projects/${project_id}/branches`, { branch: { parent_id } }],
    ['POST', `/projects/${project_id}/branches/${main.branch_id}/restore`, { source_branch_id: parent_id }],
    ['POST', `/projects/${project_id}/branches/${parent_id}/snapshot`, {}],
  ]
  for (const [method, path, body] of copies)
    refused(await send(neap, method, path, { body }), 422, 'NOT_ALLOWED', /not masked yet/)

  await http(place, 'PATCH', '/masking_rules', { body: { masking_rules: full(RULES) } })
  const { masking_rules } = (await http(place, 'GET', '/masking_rules')).body as { masking_rules: unknown[] }
  assert.deepEqual(masking_rules, full(RULES))
  assert.equal((await anonymize(place)).state, 'anonymizing')
  await settledAs(place, 'anonymized')
  assert.equal(await realRows(place), 0)

  // Again, with other rules, while it runs.
  const again = full([{ table_name: 'person', column_name: 'name', masking_value: 'all the same' }])
  await http(place, 'PATCH', '/masking_rules', { body: { masking_rules: again } })
  await anonymize(place)
  await settledAs(place, 'anonymized')
  assert.deepEqual(await query(neap, place.uri, 'select distinct name from person'), [{ name: 'all the same' }])
})

test('rules that do not fit say why, and the branch stays closed until others do', async () => {
  const { place } = await create([{ table_name: 'person', column_name: 'id', masking_value: '1' }], true)
  assert.match((await settledAs(place, 'error')).status_message ?? '', /could not be masked: duplicate key value/)
  await assert.rejects(query(neap, place.uri, 'select 1'), { hint: /anonymized_status says .* why it failed/ })
  const { project_id, endpoint_id } = place
  const start = await send(neap, 'POST', `/projects/${project_id}/endpoints/${endpoint_id}/start`)
  refused(start, 422, 'NOT_ALLOWED', /not masked yet: .* could not be masked: duplicate key value .*Change its rules/)
  const shown = await neapRun(['branches', 'get', place.branch_id], envOf(neap.ready.data_dir))
  assert.match(shown.stdout, /^ANONYMIZATION +error: .* could not be masked: duplicate key value/m)
  const { activity } = await neap.call('GET /projects/:project_id/endpoints/:endpoint_id/activity', {
    params: { project_id, endpoint_id },
  })
  assert.deepEqual([activity.reason, /no connection wakes it/.test(activity.explanation)], ['closed', true])
  const { branch: parent } = (await http(main, 'GET')).body as { branch: object }
  assert.ok(!('anonymization_state' in parent))
  const wrong: [Rule, RegExp][] = [
    [{ table_name: 'nobody', column_name: 'id', masking_value: '1' }, /there is no table "public"."nobody"/],
    [{ table_name: 'person', column_name: 'nothing', masking_value: '1' }, /has no column "nothing"/],
    [{ table_name: 'names', column_name: 'name', masking_value: '1' }, /names is no table/],
    [
      { table_name: 'person', column_name: 'name', masking_function: 'anon.no_such()' },
      /anon.no_such\(\) does not exist/,
    ],
    [{ database_name: 'neap', table_name: 'a', column_name: 'b', masking_value: '1' }, /no database "neap"/],
    [
      { schema_name: 'pg_catalog', table_name: 'pg_authid', column_name: 'rolname', masking_value: '1' },
      /belongs to Postgres/,
    ],
  ]
  for (const [rule, why] of wrong) {
    await http(place, 'PATCH', '/masking_rules', { body: { masking_rules: full([rule]) } })
    await anonymize(place)
    assert.match((await settledAs(place, 'error')).status_message ?? '', why)
  }
  const both = full([{ table_name: 'person', column_name: 'name', masking_value: '1', masking_function: '1' }])
  const answer = await http(place, 'PATCH', '/masking_rules', { body: { masking_rules: both } })
  refused(answer, 422, 'NOT_ALLOWED', /masking_rules.0 \(name\)/)
  refused(await http(main, 'POST', '/anonymize'), 422, 'NOT_ALLOWED', /is no anonymized branch/)
  await http(place, 'PATCH', '/masking_rules', { body: { masking_rules: full(RULES) } })
  await anonymize(place)
  await settledAs(place, 'anonymized')
  assert.equal(await realRows(place), 0)
})

test('triggers, rules, row security and code of users change no masking, and run as no superuser', async () => {
  await query(
    neap,
    main.uri,
    `create table seen (what text, who text, super boolean);
     create function note() returns trigger language plpgsql as $$ begin
       insert into seen values ('trigger ' || tg_name, old.v, false); return null; end $$;
     create function who(v text) returns boolean language plpgsql as $$ begin
       insert into seen values ('check', current_user,
                                (select rolsuper from pg_roles where rolname = session_user));
       return true; end $$;
     create table guarded (v text, check (who(v)));
     insert into guarded values ('real');
     delete from seen;
     create trigger plain before update on guarded for each row execute function note();
     create trigger always before update on guarded for each row execute function note();
     alter table guarded enable always trigger always;
     create trigger off before update on guarded for each row execute function note();
     alter table guarded disable trigger off;
     create table ruled (v text);
     insert into ruled values ('real');
     create rule nothing as on update to ruled do instead nothing;
     create table secured (v text);
     insert into secured values ('real');
     alter table secured enable row level security, force row level security;
     create table parted (v text, k int) partition by list (k);
     create table parted_1 partition of parted for values in (1);
     insert into parted values ('real', 1);
     create table heir (more text) inherits (ruled);
     insert into heir values ('real', 'x')`,
  )
  const tables = ['guarded', 'ruled', 'secured', 'parted']
  const rules = tables.map((table_name) => ({ table_name, column_name: 'v', masking_value: 'masked' }))
  const { place, operations } = await create(rules, true)
  await neap.ended(operations)
  const values = tables.map((table) => `select v from ${table}`).join(' union all ')
  assert.deepEqual(await query(neap, place.uri, `select distinct v from (${values}) all_values`), [{ v: 'masked' }])
  assert.deepEqual(await query(neap, place.uri, 'select distinct what, super from seen'), [
    { what: 'check', super: false },
  ])
  const states = `select string_agg(tgname::text || tgenabled::text, ' ' order by tgname) as triggers,
                         (select ev_enabled from pg_rewrite where rulename = 'nothing') as rule
                    from pg_trigger where tgrelid = 'guarded'::regclass`
  const [was] = await query(neap, main.uri, states)
  assert.deepEqual(await query(neap, place.uri, states), [was])
})

test('masking reaches what follows a column, and masking again ends the history', async () => {
  await query(
    neap,
    main.uri,
    `create table acct (email text primary key);
     insert into acct select 'leak' || i || '@secret.org' from generate_series(1, 300) i;
     create table pay (email text references acct on update cascade);
     insert into pay select email from acct;
     create table noticed (value text);
     create function notice() returns trigger language plpgsql as
       'begin insert into noticed values (old.email); return new; end';
     create trigger noted after update on pay for each row execute function notice();
     create view source as select 'none'::text as email;
     create materialized view early as select email from source;
     create materialized view late as select email from acct;
     create or replace view source as select email from late;
     refresh materialized view early;
     create table part (id int, secret text) partition by range (id);
     create table part_a partition of part for values from (0) to (1000);
     insert into part select i, 'leak' || i from generate_series(1, 300) i;
     analyze`,
  )
  const rules = [
    { table_name: 'acct', column_name: 'email', masking_function: 'anon.hash(email)' },
    { table_name: 'part_a', column_name: 'secret', masking_value: 'gone' },
  ]
  const { place, operations } = await create(rules, true)
  await neap.ended(operations)
  const [left] = await query(
    neap,
    place.uri,
    `select (select count(*)::int from pay) as pays, (select count(*)::int from early) as early,
            (select count(*)::int from (select email from pay union all select email from early
                                        union all select value from noticed) found where email like 'leak%') as rows,
            (select count(*)::int from pg_stats where most_common_vals::text ~ 'leak'
                                                   or histogram_bounds::text ~ 'leak') as statistics`,
  )
  assert.deepEqual(left, { pays: 300, early: 300, rows: 0, statistics: 0 })

  await query(neap, place.uri, `create table extra as select 'leak'::text as value`)
  await until('its history has begun', async () => {
    const { since } = (await http(place, 'GET', '/history')).body as { since?: string }
    return since
  })
  const [moment] = await query<{ at: string }>(
    neap,
    place.uri,
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
  )
  const atMoment = () =>
    send(neap, 'POST', `/projects/${place.project_id}/branches`, {
      body: { branch: { parent_id: place.branch_id, parent_timestamp: moment?.at } },
    })
  const early = await atMoment()
  assert.equal(early.status, 201, JSON.stringify(early.body))
  await neap.ended((early.body as { operations: { id: string; project_id: string }[] }).operations)
  const again = [...rules, { table_name: 'extra', column_name: 'value', masking_value: 'gone' }]
  const change = (changed: readonly Rule[]) =>
    http(place, 'PATCH', '/masking_rules', { body: { masking_rules: full(changed) } })
  assert.equal((await change(again)).status, 200)
  await anonymize(place)
  await settledAs(place, 'anonymized')
  refused(await atMoment(), 422, 'NOT_ALLOWED', /history/)

  await query(neap, place.uri, `insert into extra values ('leak again')`)
  await change([{ table_name: 'extra', column_name: 'value', masking_function: 'value::int::text' }])
  await anonymize(place)
  const { status_message = '' } = await settledAs(place, 'error')
  assert.match(status_message, /SQLSTATE 22P02/)
  assert.doesNotMatch(status_message, /leak|gone/)
})

test('both sides of a foreign key are masked, and the key is as it was', async () => {
  await query(
    neap,
    main.uri,
    `create table parent (email text primary key); insert into parent select email from person;
     create table child (parent_email text references parent, later text references parent deferrable);
     insert into child select email, email from person`,
  )
  const masking_function = (column: string) => ({ masking_function: `anon.hash(${column})` })
  const { place, operations } = await create(
    [
      { table_name: 'parent', column_name: 'email', ...masking_function('email') },
      { table_name: 'child', column_name: 'parent_email', ...masking_function('parent_email') },
      { table_name: 'child', column_name: 'later', ...masking_function('later') },
    ],
    true,
  )
  await neap.ended(operations)
  const joined = 'select count(*)::int as n from parent join child on email = parent_email and email = later'
  const keys = `select condeferrable, condeferred from pg_constraint where contype = 'f' order by conname`
  assert.deepEqual(await query(neap, place.uri, joined), [{ n: 300 }])
  assert.deepEqual(await query(neap, place.uri, keys), await query(neap, main.uri, keys))
  assert.deepEqual(await query(neap, place.uri, `select 1 from child where parent_email like '%secret%'`), [])
  await query(neap, main.uri, 'drop table child, parent')
})

test('published tables without a key are masked, and have the replica identity of before', async () => {
  await query(
    neap,
    main.uri,
    `create table mail (email text); create table old_mail () inherits (mail);
     insert into mail select email from person; insert into old_mail select email from person;
     create publication mails for table mail`,
  )
  const rule = { table_name: 'mail', column_name: 'email', masking_function: 'anon.hash(email)' }
  const { place, operations } = await create([rule], true)
  await neap.ended(operations)
  const found = `select (select count(*) from mail where email like '%secret%')::int as real,
                        (select string_agg(relreplident, '') from pg_class
                          where relname in ('mail', 'old_mail')) as kept`
  assert.deepEqual(await query(neap, place.uri, found), [{ real: 0, kept: 'dd' }])
  await query(neap, main.uri, 'drop publication mails; drop table old_mail, mail')
})

test('an error of a function that a rule calls is not shown, since it may have rows', async () => {
  await query(
    neap,
    main.uri,
    `create function leak() returns text immutable language plpgsql as
       $$begin raise exception 'leaked: %', (select string_agg(email, ',') from person) using errcode = '23514'; end$$`,
  )
  const { place } = await create(
    [{ table_name: 'person', column_name: 'email', masking_function: 'public.leak()' }],
    true,
  )
  const { status_message = '' } = await settledAs(place, 'error')
  assert.match(status_message, /SQLSTATE 23514/)
  assert.doesNotMatch(status_message, /leaked|secret/)
})

test('replication of a masked branch has no value of before', async () => {
  await enableReplication(neap, main)
  const [earlier] = await query<{ lsn: string }>(neap, main.uri, `select pg_current_wal_lsn()::text as lsn`)
  const { place, operations } = await create(RULES, true)
  await neap.ended(operations)
  const client = await connect(neap, place.uri, { replication: 'true' } as pg.ClientConfig)
  try {
    const stream = client.query(`START_REPLICATION PHYSICAL ${earlier?.lsn}`)
    await assert.rejects(stream, /has already been removed/)
    const chunks: Buffer[] = []
    const { connection } = client as unknown as { connection: EventEmitter }
    connection.on('copyData', ({ chunk }: { chunk: Buffer }) => chunks.push(Buffer.from(chunk)))
    await client.query(`BASE_BACKUP (CHECKPOINT 'fast', WAL true)`)
    const files = Buffer.concat(chunks)
    assert.ok(files.includes('payment') && files.length > 20_000_000, `${files.length} bytes`)
    for (const value of ['real1', 'Real 1']) assert.equal(files.indexOf(value), -1, value)
  } finally {
    await client.end()
  }
})
