import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { catalogClient, catalogQuery, superuser } from '../admin.ts'
import { branchHttp, databasePath, rolePath, uriWith } from '../branch_http.ts'
import { connect, query } from '../clients.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, computeOf, endpointOf, firstPlace, type Place, settled, suspend } from '../project.ts'
import { kill, until } from '../processes.ts'

/* Changes of roles and databases by SQL, as the API shows them: while the compute runs, and after it has stopped. */

let neap: Neap
let place: Place
let api: ReturnType<typeof branchHttp>

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  api = branchHttp(neap, place)
})

after(() => neap?.stop())

const run = (sql: string) => query(neap, place.uri, sql)
const OWNER = 'neondb_owner'
const reveal = (name: string, of = api) => of.ask('GET', rolePath(name, '/reveal_password'))

test('roles and databases changed by SQL are listed at once, and after a suspend', async () => {
  await run(`create role "by sql/ü" login password 'secret one'`)
  await run('create role keyless nologin')
  await run('create database "sql db"')
  await run(`grant "by sql/ü" to ${OWNER}`)
  await run('alter database "sql db" owner to "by sql/ü"')
  assert.deepEqual(await api.roles(), ['by sql/ü', 'keyless', OWNER])
  assert.deepEqual(await api.databases(), { neondb: OWNER, 'sql db': 'by sql/ü' })
  const one = await api.ask('GET', rolePath('keyless'))
  assert.equal((one.body['role'] as Record<string, unknown>)['authentication_method'], 'no_login')
  refused(await reveal('keyless'), 422, 'NOT_ALLOWED', /cannot log in/)
  refused(await reveal('by sql/ü'), 422, 'NOT_ALLOWED', /set by SQL.*reset_password/)
  refused(await api.ask('POST', rolePath('keyless', '/reset_password')), 422, 'NOT_ALLOWED', /ALTER ROLE/)
  refused(await api.ask('DELETE', rolePath('by sql/ü')), 422, 'NOT_ALLOWED', /owns the database "sql db".*PATCH/)
  refused(await api.ask('POST', '/roles', { role: { name: 'keyless' } }), 409, 'ROLE_ALREADY_EXISTS', /exists/)

  await run('alter database "sql db" rename to renamed')
  await run('drop role keyless')
  await suspend(neap, place)
  assert.deepEqual(await api.databases(), { neondb: OWNER, renamed: 'by sql/ü' })
  assert.deepEqual(await api.roles(), ['by sql/ü', OWNER])
  assert.equal((await api.ask('GET', rolePath('keyless'))).status, 404)
  assert.equal((await endpointOf(neap, place)).current_state, 'idle')

  // The API changes roles and databases that SQL created like its own.
  const { role } = await api.change('POST', rolePath('by sql/ü', '/reset_password'))
  const as = uriWith(place.uri, { role: 'by sql/ü', password: role.password, database: 'renamed' })
  assert.deepEqual(await query(neap, as, 'select current_user::text as role'), [{ role: 'by sql/ü' }])
  assert.equal((await reveal('by sql/ü')).body['password'], role.password)
  await api.change('DELETE', databasePath('renamed'))
  await api.change('DELETE', rolePath('by sql/ü'))
  assert.deepEqual(await run(`select rolname from pg_roles where rolname like 'by%'`), [])
})

test('a password changed by SQL is never revealed', async () => {
  const { role } = await api.change('POST', '/roles', { role: { name: 'moody' } })
  assert.equal((await reveal('moody')).body['password'], role.password)
  const theirs = uriWith(place.uri, { role: 'moody', password: role.password })
  await query(neap, theirs, `alter role moody password 'my own'`)
  refused(await reveal('moody'), 422, 'NOT_ALLOWED', /set by SQL/)

  const uri = () =>
    send(neap, 'GET', `/projects/${place.project_id}/connection_uri?role_name=moody&database_name=neondb`)
  refused(await uri(), 422, 'NOT_ALLOWED', /set by SQL/)

  const again = await api.change('POST', rolePath('moody', '/reset_password'))
  // A change that is not yet applied to Postgres does not hide passwords of other roles.
  await api.begin('POST', '/roles', { role: { name: 'other' } })
  assert.equal((await reveal('moody')).body['password'], again.role.password)
  assert.match((await uri()).body['uri'] as string, new RegExp(again.role.password))
  await query(neap, uriWith(theirs, { password: again.role.password }), `alter role moody password 'my own'`)
  await suspend(neap, place)
  refused(await reveal('moody'), 422, 'NOT_ALLOWED', /set by SQL/)
  const given = await api.begin('POST', rolePath('moody', '/reset_password'))
  assert.equal((await reveal('moody')).body['password'], given.role.password)
  await neap.ended(given.operations)

  // A branch inherits the password along with the data.
  const last = uriWith(theirs, { password: given.role.password })
  await query(neap, last, `alter role moody password 'my own'`)
  const child = await branchOff(neap, place)
  refused(await reveal('moody', branchHttp(neap, child)), 422, 'NOT_ALLOWED', /set by SQL/)
  assert.deepEqual(await query(neap, uriWith(child.uri, { role: 'moody', password: 'my own' }), 'select 1 as one'), [
    { one: 1 },
  ])
})

test("a new branch reads its parent's roles before it locks the project", async () => {
  await run('create role in_time')
  const holder = await catalogClient(neap)
  await holder.query('begin')
  await holder.query('select from project where id = $1 for update', [place.project_id])
  const asked = send(neap, 'POST', `/projects/${place.project_id}/branches`, { body: {} })
  await until('the request waits for the project', async () => {
    const waiting = await catalogQuery(neap, `select from pg_stat_activity where wait_event_type = 'Lock'`)
    return waiting.length > 0
  })
  await run('create role too_late')
  await holder.query('commit')
  await holder.end()
  const { status, body } = await asked
  assert.equal(status, 201, body.message)
  const { roles, operations } = body as unknown as { roles: { name: string }[]; operations: [] }
  const names = roles.map(({ name }) => name)
  assert.deepEqual([names.includes('in_time'), names.includes('too_late')], [true, false])
  await neap.ended(operations)
})

test('a role changed during a suspend is recorded in its final state', async () => {
  const client = await connect(neap, place.uri)
  await client.query('begin')
  await client.query('create role unfinished')
  const cut = assert.rejects(client.query('select pg_sleep(60)'), { code: '57P01' })
  await suspend(neap, place)
  await cut
  await client.end().catch(() => {})
  assert.ok(!(await api.roles()).includes('unfinished'))
  assert.deepEqual(await run(`select from pg_roles where rolname = 'unfinished'`), [])
})

test('an unresponsive compute delays no answer, and passwords that only it knows are refused', async () => {
  await run('select 1')
  await settled(neap, place, 'active')
  const known = await api.roles()
  const { pid } = (await computeOf(neap, place)) ?? {}
  const admin = await superuser(neap, place)
  await run('create role unheard_of')
  await admin.end()
  process.kill(pid as number, 'SIGSTOP')
  try {
    assert.deepEqual(await api.roles(), known)
    refused(await reveal(OWNER), 503, 'UNAVAILABLE', /Try again/)
    const path = `/projects/${place.project_id}/connection_uri?role_name=${OWNER}&database_name=neondb`
    refused(await send(neap, 'GET', path), 503, 'UNAVAILABLE', /Try again/)
  } finally {
    process.kill(pid as number, 'SIGCONT')
  }
  assert.deepEqual(await api.roles(), [...known, 'unheard_of'].sort())
  await run('create role unheard_of_2')
  await kill(pid)
  // An apply_config detects that the compute is gone.
  await api.change('POST', '/roles', { role: { name: 'meanwhile' } })
  assert.equal((await endpointOf(neap, place)).current_state, 'idle')
  const uriOf = (name: string) =>
    send(neap, 'GET', `/projects/${place.project_id}/connection_uri?role_name=${name}&database_name=neondb`)
  for (const ask of [reveal, uriOf]) {
    refused(await ask(OWNER), 422, 'NOT_ALLOWED', /Start the endpoint/)
    assert.equal((await ask('meanwhile')).status, 200)
  }
  await run('select 1')
  await settled(neap, place, 'active')
  assert.deepEqual(await api.roles(), [...known, 'meanwhile', 'unheard_of', 'unheard_of_2'].sort())
  assert.equal((await reveal(OWNER)).body['password'], decodeURIComponent(new URL(place.uri).password))
})
