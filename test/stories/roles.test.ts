import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { catalogQuery } from '../admin.ts'
import { branchHttp, rolePath, uriWith } from '../branch_http.ts'
import { query } from '../clients.ts'
import { type Request, refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, endpointOf, firstPlace, type Place, suspend } from '../project.ts'

/* Roles and databases that the API creates in Postgres, and the logs of those requests. */

let neap: Neap
let place: Place
let project: string
let branch: string

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  project = `/projects/${place.project_id}`
  branch = `${project}/branches/${place.branch_id}`
})

after(() => neap?.stop())

const http = (method: string, path: string, request?: Request) => send(neap, method, path, request)

const WEIRD = 'we"ird; drop'

/** Creates a role and a database that it owns, and waits for their operations. Returns the role's password. */
async function addRoleAndDatabase(name: string): Promise<string> {
  const role = await http('POST', `${branch}/roles`, { body: { role: { name } } })
  assert.equal(role.status, 201, role.body.message)
  const database = await http('POST', `${branch}/databases`, { body: { database: { name, owner_name: name } } })
  assert.equal(database.status, 201, database.body.message)
  type Made = { operations: { id: string; project_id: string; action: string }[] }
  const operations = [role, database].flatMap(({ body }) => (body as unknown as Made).operations)
  assert.deepEqual(new Set(operations.map(({ action }) => action)), new Set(['apply_config']))
  await neap.ended(operations)
  return (role.body['role'] as { password: string }).password
}

const uriAs = (name: string, password: string, uri = place.uri): string => {
  const url = new URL(uri)
  url.username = encodeURIComponent(name)
  url.password = password
  url.pathname = encodeURIComponent(name)
  return url.href
}

test('roles and databases are created in Postgres, on an active and on an idle branch', async () => {
  const whose = `select current_user as role, current_database() as database, pg_get_userbyid(datdba) as owner
    from pg_database where datname = current_database()`
  await query(neap, place.uri, 'select 1')
  const weird = await addRoleAndDatabase(WEIRD)
  assert.deepEqual(await query(neap, uriAs(WEIRD, weird), whose), [{ role: WEIRD, database: WEIRD, owner: WEIRD }])

  await suspend(neap, place)
  const slept = await addRoleAndDatabase('of the night')
  assert.equal((await endpointOf(neap, place)).current_state, 'idle')
  assert.deepEqual(await query(neap, uriAs('of the night', slept), whose), [
    { role: 'of the night', database: 'of the night', owner: 'of the night' },
  ])

  const names = ['neondb', 'of the night', WEIRD]
  assert.deepEqual(
    await query(
      neap,
      place.uri,
      `select datname from pg_database where not datistemplate and datname not in ('neap', 'postgres') order by 1`,
    ),
    names.map((datname) => ({ datname })),
  )
  const { databases } = (await http('GET', `${branch}/databases`)).body as unknown as { databases: { name: string }[] }
  assert.deepEqual(databases.map(({ name }) => name).sort(), names)
  refused(
    await http('POST', `${branch}/roles`, { body: { role: { name: WEIRD } } }),
    409,
    'ROLE_ALREADY_EXISTS',
    /already exists/,
  )
  refused(await http('POST', `${branch}/roles`, { body: { role: { name: 'pg_x' } } }), 422, 'NOT_ALLOWED', /reserved/)
  const nobodys = { database: { name: 'd', owner_name: 'nobody' } }
  refused(await http('POST', `${branch}/databases`, { body: nobodys }), 404, 'NOT_FOUND', /owner not found/)

  const child = await branchOff(neap, place)
  assert.deepEqual(await query(neap, child.uri, 'select 1 as one'), [{ one: 1 }])
  assert.deepEqual(await query(neap, uriAs(WEIRD, weird, child.uri), 'select current_user::text as name'), [
    { name: WEIRD },
  ])
})

test('a role with any name is reset, revealed and deleted, on an active and on an idle branch', async () => {
  const api = branchHttp(neap, place)
  const password = async (name: string) => (await api.ask('GET', rolePath(name, '/reveal_password'))).body['password']
  const isRefused = (name: string, secret: string) =>
    assert.rejects(query(neap, uriWith(place.uri, { role: name, password: secret }), 'select 1'), { code: '28P01' })
  for (const name of ['a"b\\c; drop', 'ünïcode/with slash %2F', ' ']) {
    const made = await api.change('POST', '/roles', { role: { name } })
    assert.equal(await password(name), made.role.password)
    const got = await api.ask('GET', rolePath(name))
    assert.deepEqual(
      [(got.body['role'] as { name: string }).name, 'password' in (got.body['role'] as object)],
      [name, false],
    )
    const reset = await api.change('POST', rolePath(name, '/reset_password'))
    assert.notEqual(reset.role.password, made.role.password)
    assert.equal(await password(name), reset.role.password)
    const as = uriWith(place.uri, { role: name, password: reset.role.password })
    assert.deepEqual(await query(neap, as, 'select current_user::text as role'), [{ role: name }])
    await isRefused(name, made.role.password)

    await suspend(neap, place)
    const slept = await api.change('POST', rolePath(name, '/reset_password'))
    assert.equal(await password(name), slept.role.password)
    const then = uriWith(place.uri, { role: name, password: slept.role.password })
    assert.deepEqual(await query(neap, then, 'select current_user::text as role'), [{ role: name }])
    await isRefused(name, reset.role.password)

    await suspend(neap, place)
    assert.equal((await api.change('DELETE', rolePath(name))).role.name, name)
    for (const [method, verb] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/reveal_password'],
      ['POST', '/reset_password'],
    ] as const)
      refused(await api.ask(method, rolePath(name, verb)), 404, 'NOT_FOUND', /role not found/)
    const left = `select from pg_roles where rolname = ${pg.escapeLiteral(name)}`
    assert.deepEqual(await query(neap, place.uri, left), [])
  }
  const idle = await api.change('POST', '/roles', { role: { name: 'a group', no_login: true } })
  assert.ok(!('password' in idle.role))
  refused(await api.ask('GET', rolePath('a group', '/reveal_password')), 422, 'NOT_ALLOWED', /cannot log in/)
  refused(await api.ask('POST', rolePath('a group', '/reset_password')), 422, 'NOT_ALLOWED', /LOGIN/)
  const reader = (await http('POST', '/api_keys', { body: { key_name: 'reader', scope: 'read' } })).body.key as string
  const path = `${branch}${rolePath('neondb_owner')}`
  assert.equal((await http('GET', path, { key: reader })).status, 200)
  refused(await http('GET', `${path}/reveal_password`, { key: reader }), 403, 'FORBIDDEN', /./)
})

test('every change has one audit row, and no secret is stored or logged', async () => {
  const made = await http('POST', '/api_keys', { body: { key_name: 'a', scope: 'read' } })
  const { id, key } = made.body as unknown as { id: number; key: string }
  const name = 'audited'
  const role = await http('POST', `${branch}/roles`, { body: { role: { name } } })
  const changing = [
    made,
    role,
    await http('POST', `${branch}/roles`, { body: { role: { name } } }),
    await http('POST', `${branch}/roles`, { body: {} }),
    await http('POST', `${branch}/roles`, { body: { role: { name: 'other' } }, key }),
    await http('POST', `${project}/endpoints/${place.endpoint_id}/start`),
    await http('DELETE', `${project}/branches/br-none`),
    await http('DELETE', `/api_keys/${id}`),
  ]
  const reading = [
    await http('GET', project),
    await http('GET', '/projects/none'),
    await http('GET', '/projects', { key: null }),
  ]
  const written = new Map(
    (await catalogQuery<{ request_id: string; status: number }>(neap, 'select request_id, status from audit')).map(
      (row) => [row.request_id, row.status],
    ),
  )
  assert.deepEqual(
    changing.map((answer) => written.get(answer.headers.get('x-request-id') ?? '')),
    [200, 201, 409, 400, 403, 200, 404, 200],
  )
  assert.ok(!reading.some((answer) => written.has(answer.headers.get('x-request-id') ?? '')))
  const [{ doubled } = { doubled: -1 }] = await catalogQuery<{ doubled: number }>(
    neap,
    'select (count(*) - count(distinct request_id))::int as doubled from audit',
  )
  assert.equal(doubled, 0)

  const { password } = role.body['role'] as { password: string }
  const secrets = [key, neap.ready.api_key as string, password, new URL(place.uri).password]
  const dump =
    JSON.stringify(await catalogQuery(neap, 'select * from audit')) +
    JSON.stringify(await catalogQuery(neap, 'select * from operation'))
  const logs = globSync(join(neap.ready.data_dir, '**', '*.log')).map((file) => readFileSync(file, 'utf8'))
  assert.ok(logs.length >= 5)
  for (const text of [dump, ...logs, neap.stderr()]) for (const secret of secrets) assert.ok(!text.includes(secret))
})
