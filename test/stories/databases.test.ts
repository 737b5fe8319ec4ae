import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { superuser } from '../admin.ts'
import { branchHttp, databasePath, rolePath, uriWith } from '../branch_http.ts'
import { connect, query } from '../clients.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, enableReplication, firstPlace, operationsOf, type Place, settled, suspend } from '../project.ts'

/*
 * Databases that the API renames, transfers and drops in Postgres: in use, idle, inherited, and when their owners
 * obstruct it.
 */

const LIMIT = 12
const OWNER = 'neondb_owner'
const WEIRD = 'we"ird; drop/ö %2F'

let neap: Neap
let place: Place
let api: ReturnType<typeof branchHttp>

before(async () => {
  neap = await startNeap({ env: { NEAP_ROLES_LIMIT: String(LIMIT), NEAP_DATABASES_LIMIT: String(LIMIT) } })
  place = await firstPlace(neap)
  await enableReplication(neap, place)
  api = branchHttp(neap, place)
})

after(() => neap?.stop())

const uriOf = (database: string, of = place) => uriWith(of.uri, { database })
const run = (sql: string, database = 'neondb') => query(neap, uriOf(database), sql)
const newDatabase = (name: string, owner_name = OWNER) => ({ database: { name, owner_name } })
const inPostgres = async () =>
  Object.fromEntries(
    (
      await run(`select datname as name, pg_get_userbyid(datdba) as owner from pg_database
        where datname not in ('neap', 'postgres', 'template0', 'template1')`)
    ).map(({ name, owner }) => [name as string, owner as string]),
  )

/**
 * Connects, and returns a promise of the code with which the session ends. It is wrapped in an object, so that awaiting
 * this function does not await the end.
 */
async function sessionAt(uri: string): Promise<{ end: Promise<string | undefined> }> {
  const ended = Promise.withResolvers<string | undefined>()
  await connect(neap, uri, { lost: (error) => ended.resolve((error as { code?: string }).code) })
  return { end: ended.promise }
}

test('a database in use is renamed, given another owner and dropped', async () => {
  await run('select 1')
  await api.change('POST', '/databases', newDatabase(WEIRD))
  await run('create table kept as select 7 as n', WEIRD)
  const { role } = await api.change('POST', '/roles', { role: { name: WEIRD } })
  const first = await sessionAt(uriOf(WEIRD))
  const other = `${WEIRD} 2`
  const renamed = await api.change('PATCH', databasePath(WEIRD), newDatabase(other, WEIRD))
  assert.equal(renamed.database.name, other)
  assert.equal(await first.end, '57P01')
  assert.equal((await api.ask('GET', databasePath(WEIRD))).status, 404)
  assert.deepEqual(await inPostgres(), { neondb: OWNER, [other]: WEIRD })
  const theirs = uriWith(place.uri, { role: WEIRD, password: role.password, database: other })
  assert.deepEqual(await query(neap, theirs, 'select current_user::text as role'), [{ role: WEIRD }])
  assert.deepEqual(await run('select n from kept', other), [{ n: 7 }])

  const same = await api.ask('PATCH', databasePath(other), newDatabase(other, ''))
  assert.deepEqual([same.status, same.body['operations']], [200, []])
  refused(await api.ask('PATCH', databasePath(other), newDatabase('neondb')), 409, 'DATABASE_ALREADY_EXISTS', /exists/)
  refused(await api.ask('PATCH', databasePath(other), newDatabase(other, 'nobody')), 404, 'NOT_FOUND', /owner/)
  refused(await api.ask('PATCH', databasePath(other), newDatabase('template1')), 422, 'NOT_ALLOWED', /reserved/)
  refused(await api.ask('PATCH', databasePath('none'), newDatabase('x')), 404, 'NOT_FOUND', /not found/)
  refused(await api.ask('DELETE', rolePath(WEIRD)), 422, 'NOT_ALLOWED', /owns the database/)

  const second = await sessionAt(uriOf(other))
  const dropped = await api.change('DELETE', databasePath(other))
  assert.equal(dropped.database.owner_name, WEIRD)
  assert.equal(await second.end, '57P01')
  refused(await api.ask('DELETE', databasePath(other)), 404, 'NOT_FOUND', /not found/)
  await api.change('DELETE', rolePath(WEIRD))
  refused(await api.ask('DELETE', rolePath(WEIRD)), 404, 'NOT_FOUND', /not found/)
  assert.deepEqual(await inPostgres(), { neondb: OWNER })
})

test('changes of an idle branch are applied in order at its start, and to a branch created from it', async () => {
  await api.change('POST', '/databases', newDatabase('a'))
  await api.change('POST', '/databases', newDatabase('b'))
  await run('create table t as select 1 as was_a', 'a')
  await run('create table t as select 1 as was_b', 'b')
  await api.change('POST', '/roles', { role: { name: 'old' } })
  await suspend(neap, place)
  // Names that are swapped, one that is reused, one that was never applied to Postgres.
  await api.begin('PATCH', databasePath('a'), { database: { name: 'c' } })
  await api.begin('PATCH', databasePath('b'), { database: { name: 'a' } })
  await api.begin('PATCH', databasePath('c'), { database: { name: 'b' } })
  await api.begin('POST', '/databases', newDatabase('brief'))
  await api.begin('DELETE', databasePath('brief'))
  await api.begin('POST', '/databases', newDatabase('brief'))
  await api.begin('DELETE', rolePath('old'))
  const renewed = await api.begin('POST', '/roles', { role: { name: 'old', no_login: true } })
  assert.equal(renewed.role.password, undefined)
  await api.begin('POST', '/databases', newDatabase('of old', 'old'))
  const wanted = { neondb: OWNER, a: OWNER, b: OWNER, brief: OWNER, 'of old': 'old' }
  assert.deepEqual(await api.databases(), wanted)

  const child = await branchOff(neap, place)
  for (const branch of [place, child]) {
    assert.deepEqual(await query(neap, uriOf('a', branch), 'select was_b from t'), [{ was_b: 1 }])
    assert.deepEqual(await query(neap, uriOf('b', branch), 'select was_a from t'), [{ was_a: 1 }])
    assert.deepEqual(
      await query(neap, uriOf('neondb', branch), `select rolcanlogin from pg_roles where rolname = 'old'`),
      [{ rolcanlogin: false }],
    )
    await settled(neap, branch, 'active')
    assert.deepEqual(await branchHttp(neap, branch).databases(), wanted)
  }
  assert.deepEqual(await inPostgres(), wanted)
  // Changes that were applied are not repeated for a new database with the same name.
  await run('create table kept as select 2 as n', 'brief')
  await api.change('DELETE', databasePath('a'))
  await api.change('DELETE', databasePath('b'))
  assert.deepEqual(await run('select n from kept', 'brief'), [{ n: 2 }])
  for (const name of ['brief', 'of old']) await api.change('DELETE', databasePath(name))
  await api.change('DELETE', rolePath('old'))
})

test('the objects of a deleted role belong to the owner of the database afterwards', async () => {
  const { role } = await api.change('POST', '/roles', { role: { name: 'leaver' } })
  const as = (database: string) => uriWith(place.uri, { role: 'leaver', password: role.password, database })
  await run('grant create on schema public to leaver')
  await query(neap, as('neondb'), 'create table public.left_behind as select 3 as n; create role protege')
  await query(neap, as('neondb'), `grant protege to ${OWNER}`)
  await query(neap, as('neondb'), `alter default privileges grant select on tables to ${OWNER}`)
  await query(neap, as('postgres'), 'select lo_create(4711)')
  const session = await sessionAt(as('neondb'))
  await api.change('DELETE', rolePath('leaver'))
  assert.equal(await session.end, '57P01')
  assert.deepEqual(
    await run(`select tableowner::text, n from pg_tables, left_behind where tablename = 'left_behind'`),
    [{ tableowner: OWNER, n: 3 }],
  )
  assert.deepEqual(await run('select from pg_largeobject_metadata', 'postgres'), [])
  assert.deepEqual(await api.roles(), [OWNER, 'protege'])
  await api.change('DELETE', rolePath('protege'))
  await run('drop table left_behind')
})

test('an owner can neither block the drop of a database nor run code as the superuser', async () => {
  const { role } = await api.change('POST', '/roles', { role: { name: 'foe' } })
  const foe = uriWith(place.uri, { role: 'foe', password: role.password })
  await api.change('POST', '/databases', newDatabase('trap', 'foe'))
  await query(
    neap,
    uriWith(foe, { database: 'trap' }),
    'create table t (); create schema s; create table s.pg_class ()',
  )
  await query(neap, foe, 'alter database trap set role = foe; alter database trap set search_path = s, public')
  await query(neap, foe, `alter database trap set default_transaction_read_only = on`)
  await query(neap, foe, 'alter database trap connection limit 0')
  await query(neap, foe, 'alter database trap is_template true')
  await query(neap, foe, 'alter database trap allow_connections false')
  // The role owns objects in this database, which has another owner: dropping the role requires a session in it.
  await api.change('PATCH', databasePath('trap'), { database: { owner_name: OWNER } })
  const sitting = await connect(neap, uriWith(foe, { database: 'template1' }))
  await api.change('POST', '/databases', newDatabase('made anyway'))
  await sitting.end()
  await api.change('DELETE', rolePath('foe'))
  assert.deepEqual(await run(`select datallowconn from pg_database where datname = 'trap'`), [{ datallowconn: false }])
  await api.change('DELETE', databasePath('trap'))

  const own = uriOf('made anyway')
  await query(neap, own, `select pg_create_physical_replication_slot('physical')`)
  await query(
    neap,
    own,
    `create subscription s connection 'host=127.0.0.1 port=9 password=none' publication p
       with (connect = false, slot_name = 'gone')`,
  )
  await api.change('DELETE', databasePath('made anyway'))
  await run(`select pg_drop_replication_slot('physical')`)
  assert.deepEqual(await inPostgres(), { neondb: OWNER })
})

test('a stuck or refused change fails its own operation and delays no other', async () => {
  await api.change('POST', '/databases', newDatabase('stuck'))
  const admin = await superuser(neap, place)
  await admin.query('begin')
  await admin.query(`comment on database stuck is 'locked'`)
  const stuck = await api.begin('PATCH', databasePath('stuck'), { database: { name: 'free' } })
  await until('a try that failed', async () => {
    const operation = (await operationsOf(neap, place)).find(({ id }) => id === stuck.operations[0]?.id)
    return operation !== undefined && operation.failures_count > 0
  })
  await admin.query('commit')
  await neap.ended(stuck.operations)
  assert.deepEqual(await inPostgres(), { neondb: OWNER, free: OWNER })

  // An owner that exists when the change is applied, and one that SQL drops before it is applied.
  await api.change('POST', '/roles', { role: { name: 'fleeting' } })
  await suspend(neap, place)
  const queued = await api.begin('PATCH', databasePath('free'), { database: { owner_name: 'fleeting' } })
  await neap.ended(queued.operations)
  await run('select 1')
  await admin.end().catch(() => {})
  assert.deepEqual(await inPostgres(), { neondb: OWNER, free: 'fleeting' })
  await api.change('PATCH', databasePath('free'), { database: { owner_name: OWNER } })
  const again = await superuser(neap, place)
  await again.query('begin')
  await again.query('drop role fleeting')
  const hopeless = await api.begin('PATCH', databasePath('free'), { database: { owner_name: 'fleeting' } })
  await again.query('commit')
  await again.end()
  // Postgres names the role, or says so if the change has waited for the drop.
  const reason = /apply_config failed: set_database_owner "free": .*(fleeting|concurrently dropped)/
  await assert.rejects(neap.ended(hopeless.operations), reason)
  assert.deepEqual(await api.databases(), { neondb: OWNER, free: OWNER })
  await api.change('DELETE', databasePath('free'))
})

test('the number of roles and databases of a branch is limited', async () => {
  const counts = [(await api.roles()).length, Object.keys(await api.databases()).length] as const
  for (let n = counts[0]; n < LIMIT; n++) await api.begin('POST', '/roles', { role: { name: `role ${n}` } })
  for (let n = counts[1]; n < LIMIT; n++) await api.begin('POST', '/databases', newDatabase(`database ${n}`))
  const base = `/projects/${place.project_id}/branches/${place.branch_id}`
  const post = (path: string, body: unknown) => send(neap, 'POST', base + path, { body })
  refused(await post('/roles', { role: { name: 'more' } }), 422, 'ROLES_LIMIT_EXCEEDED', /12 roles/)
  refused(await post('/databases', newDatabase('more')), 422, 'DATABASES_LIMIT_EXCEEDED', /12 databases/)
  for (const name of ['', 'x'.repeat(64), 'ü'.repeat(32), 'pg_x', 'public'])
    refused(await post('/roles', { role: { name } }), 422, 'NOT_ALLOWED', /name/)
})
