import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { firstPlace, operationsOf, type Place, suspend } from '../project.ts'

/* The API over HTTP, as curl and the SDKs send it. */

let neap: Neap
let place: Place
let key: string

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  key = neap.ready.api_key ?? ''
})

after(() => neap?.stop())

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown> & {
    readonly code?: string
    readonly message?: string
    readonly request_id?: string
  }
}

async function send(method: string, path: string, init: RequestInit & { key?: string } = {}): Promise<Answer> {
  const headers = { authorization: `Bearer ${init.key ?? key}`, ...(init.headers as Record<string, string>) }
  const response = await fetch(`${neap.ready.api_url}${path}`, { ...init, method, headers })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] }
}

const json = (body: unknown) => ({ body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })

/** Refused with that status, in the one body that errors have. */
function refused(answer: Answer, status: number, code: string, message?: RegExp): void {
  assert.deepEqual([answer.status, answer.body.code], [status, code], answer.body.message)
  assert.deepEqual(Object.keys(answer.body).toSorted(), ['code', 'message', 'request_id'])
  assert.equal(answer.headers.get('x-request-id'), answer.body.request_id)
  if (message) assert.match(answer.body.message ?? '', message)
}

const project = () => `/projects/${place.project_id}`
const branch = () => `${project()}/branches/${place.branch_id}`

test('who has no key, a wrong one or a revoked one is told so', async () => {
  const none = await fetch(`${neap.ready.api_url}/projects`)
  assert.equal(none.status, 401)
  assert.equal(none.headers.get('www-authenticate'), 'Bearer')
  refused(await send('GET', '/projects', { key: 'wrong' }), 401, 'UNAUTHENTICATED')
  refused(await send('GET', '/projects', { key: `${key.slice(0, -1)}x` }), 401, 'UNAUTHENTICATED')
  const made = await send('POST', '/api_keys', json({ key_name: 'soon gone' }))
  assert.equal(made.status, 200)
  const other = String(made.body['key'])
  assert.equal((await send('GET', '/projects', { key: other })).status, 200)
  assert.equal((await send('DELETE', `/api_keys/${String(made.body['id'])}`)).body['revoked'], true)
  refused(await send('GET', '/projects', { key: other }), 401, 'UNAUTHENTICATED')
})

test('a key does what its scope says, and no more', async () => {
  const read = String((await send('POST', '/api_keys', json({ key_name: 'reader', scope: 'read' }))).body['key'])
  const write = String((await send('POST', '/api_keys', json({ key_name: 'writer', scope: 'write' }))).body['key'])
  assert.equal((await send('GET', project(), { key: read })).status, 200)
  refused(await send('POST', `${branch()}/roles`, { key: read, ...json({ role: { name: 'no' } }) }), 403, 'FORBIDDEN')
  refused(await send('GET', '/api_keys', { key: write }), 403, 'FORBIDDEN')
  refused(await send('GET', '/status', { key: write }), 403, 'FORBIDDEN')
})

test('the command line makes, lists and revokes keys', async () => {
  const env = envOf(neap.ready.data_dir)
  const made = (await neapRun(['key', 'create', 'ci', '--scope', 'write'], env)).stdout.trim()
  assert.equal((await send('GET', '/projects', { key: made })).status, 200)
  const keys = JSON.parse((await neapRun(['key', 'list', '--json'], env)).stdout) as { id: number; name: string }[]
  const ci = keys.find(({ name }) => name === 'ci')
  assert.match((await neapRun(['key', 'list'], env)).stdout, /^ID +NAME +SCOPE +CREATED +LAST USED\n/)
  assert.match((await neapRun(['key', 'revoke', String(ci?.id)], env)).stdout, /^Revoked the key ci/)
  refused(await send('GET', '/projects', { key: made }), 401, 'UNAUTHENTICATED')
})

test('what does not exist is not found, and version 1 is gone', async () => {
  for (const path of [
    '/projects/nope',
    '/projects/nope/endpoints',
    `${project()}/endpoints/ep-nope`,
    `${project()}/branches/br-nope`,
    '/nope',
  ])
    refused(await send('GET', path), 404, 'NOT_FOUND')
  refused(await send('GET', `${project()}/operations/not-a-uuid`), 400, 'INVALID_REQUEST')
  const old = await fetch(neap.ready.api_url.replace('/api/v2', '/api/v1/projects'))
  assert.equal(old.status, 410)
})

test('a bad body is refused, naming what is wrong, and changes nothing', async () => {
  const had = await operationsOf(neap, place)
  refused(await send('POST', '/projects', json({})), 400, 'INVALID_REQUEST', /project/)
  refused(await send('POST', `${branch()}/roles`, json({ role: { name: 7 } })), 400, 'INVALID_REQUEST', /role\.name/)
  refused(await send('POST', `${branch()}/roles`, { ...json({}), body: '{"role":' }), 400, 'INVALID_REQUEST', /JSON/)
  refused(
    await send('POST', `${branch()}/roles`, { body: 'x', headers: { 'content-type': 'text/xml' } }),
    415,
    'UNSUPPORTED_MEDIA_TYPE',
  )
  refused(await send('POST', `${branch()}/roles`, json({ role: { name: 'x'.repeat(2 ** 20) } })), 413, 'BODY_TOO_LARGE')
  refused(
    await send('POST', `${branch()}/roles`, json({ role: { name: 'neap_admin' } })),
    422,
    'NOT_ALLOWED',
    /reserved/,
  )
  const endpoint = { branch_id: place.branch_id, type: 'read_write' }
  refused(await send('POST', `${project()}/endpoints`, json({ endpoint })), 409, 'ENDPOINTS_LIMIT_EXCEEDED')
  refused(
    await send('POST', `${project()}/endpoints`, json({ endpoint: { ...endpoint, type: 'read_only' } })),
    422,
    'NOT_ALLOWED',
  )
  refused(await send('GET', `${project()}/operations?limit=0`), 400, 'INVALID_REQUEST', /limit/)
  refused(await send('GET', `${project()}/operations?cursor=x`), 400, 'INVALID_REQUEST', /cursor/)
  refused(await send('DELETE', branch()), 422, 'NOT_ALLOWED', /default branch/)
  assert.deepEqual(await operationsOf(neap, place), had)
})

test('an empty body will do under any content type where none is needed', async () => {
  const start = `${project()}/endpoints/${place.endpoint_id}/start`
  for (const type of ['application/json', 'application/x-www-form-urlencoded'])
    assert.equal((await send('POST', start, { headers: { 'content-type': type }, body: '' })).status, 200)
  assert.equal((await send('POST', start)).status, 200)
})

test('pages of operations hold each once, newest first', async () => {
  const all = (await operationsOf(neap, place)).map(({ id }) => id)
  const seen: string[] = []
  for (let cursor: string | undefined; ;) {
    const next: string = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const { body } = await send('GET', `${project()}/operations?limit=1${next}`)
    const [operation] = body['operations'] as { id: string; created_at: string }[]
    const pagination = body['pagination'] as { cursor: string } | undefined
    assert.equal(pagination?.cursor, operation?.created_at)
    if (!operation) break
    seen.push(operation.id)
    cursor = pagination?.cursor
  }
  assert.deepEqual(seen, all)
})

async function add(what: 'roles' | 'databases', body: unknown): Promise<Answer['body']> {
  const answer = await send('POST', `${branch()}/${what}`, json(body))
  assert.equal(answer.status, 201, answer.body.message)
  await neap.ended(answer.body['operations'] as { id: string; project_id: string }[])
  return answer.body
}

function as(role: unknown, database: string): string {
  const { name, password } = role as { name: string; password: string }
  const url = new URL(place.uri)
  const port = url.port
  return `postgresql://${encodeURIComponent(name)}:${password}@localhost:${port}/${encodeURIComponent(database)}${url.search}`
}

test('roles and databases become real, on a running branch at once and on a sleeping one when it wakes', async () => {
  const who = 'select current_user::text as role, current_database()::text as database'
  const name = 'we"ird; drop'
  const { role } = await add('roles', { role: { name } })
  await add('databases', { database: { name, owner_name: name } })
  assert.deepEqual(await query(neap, as(role, name), who), [{ role: name, database: name }])
  await suspend(neap, place)
  const { role: late } = await add('roles', { role: { name: 'late' } })
  await add('databases', { database: { name: 'later', owner_name: 'late' } })
  assert.deepEqual(await query(neap, as(late, 'later'), who), [{ role: 'late', database: 'later' }])
  await assert.rejects(query(neap, as(late, 'neap'), who))
  const [rights] = await query(neap, as(late, 'later'), 'select rolsuper from pg_roles where rolname = current_user')
  assert.deepEqual(rights, { rolsuper: false })
  await assert.rejects(query(neap, as(late, 'later'), `select pg_read_file('/etc/hostname')`), /permission denied/)
  await assert.rejects(query(neap, as(late, 'later'), `copy (select 1) to program 'id'`), /permission denied/)
})

test('a child branch has its parent’s roles, passwords and databases', async () => {
  const child = await (async () => {
    const {
      endpoints,
      operations,
      branch: made,
    } = await neap.call('POST /projects/:project_id/branches', {
      params: { project_id: place.project_id },
      body: { endpoints: [{ type: 'read_write' }] },
    })
    await neap.ended(operations)
    return { id: made.id, endpoint: endpoints[0]?.id ?? '' }
  })()
  const uri = place.uri.replace(place.endpoint_id, child.endpoint)
  assert.deepEqual(await query(neap, uri, 'select 1 as one'), [{ one: 1 }])
  const { roles } = await neap.call('GET /projects/:project_id/branches/:branch_id/roles', {
    params: { project_id: place.project_id, branch_id: child.id },
  })
  assert.ok(roles.some(({ name }) => name === 'neondb_owner'))
})

test('every change leaves one row in the audit, in its transaction, and no secret', async () => {
  const count = async () =>
    (await catalogQuery<{ count: number }>(neap, 'select count(*)::int from audit'))[0]?.count ?? 0
  const had = await count()
  await send('POST', `${branch()}/roles`, json({ role: { name: 'audited' } }))
  assert.equal(await count(), had + 1)
  refused(await send('POST', `${branch()}/roles`, json({ role: { name: 'audited' } })), 409, 'ROLE_ALREADY_EXISTS')
  assert.equal(await count(), had + 2)
  await send('GET', project())
  assert.equal(await count(), had + 2)
  const rows = await catalogQuery<{ status: number; action: string }>(
    neap,
    'select * from audit order by id desc limit 2',
  )
  assert.deepEqual(
    rows.map(({ status, action }) => [status, action]),
    [
      [409, 'POST /projects/:project_id/branches/:branch_id/roles'],
      [201, 'POST /projects/:project_id/branches/:branch_id/roles'],
    ],
  )
  assert.doesNotMatch(JSON.stringify(rows), /npg_|neap_[A-Za-z0-9]{40}/)
})

test('a project that is deleted leaves its operations to be read', async () => {
  assert.equal((await send('DELETE', project())).status, 200)
  refused(await send('GET', project()), 404, 'NOT_FOUND')
  refused(await send('GET', `${project()}/endpoints/${place.endpoint_id}`), 404, 'NOT_FOUND')
  const [last] = await operationsOf(neap, place)
  assert.equal(last?.action, 'delete_tenant')
  await neap.ended(last ? [last] : [])
})
