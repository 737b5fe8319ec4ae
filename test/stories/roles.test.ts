import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { type Request, refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, endpointOf, firstPlace, type Place, suspend } from '../project.ts'

/* Roles and databases that the API makes, in Postgres; and what is written down of the requests that made them. */

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

/** Makes a role and a database of its own, and waits until what that began has ended. Answers the role's password. */
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

test('roles and databases become real, on a branch that runs and on one that sleeps', async () => {
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

test('every request that changes something has one audit row, and no secret is written anywhere', async () => {
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
