import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Request, refused, send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { firstPlace, type Place } from '../project.ts'

/* The management API as seen by a plain HTTP client. */

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

async function newKey(scope: string): Promise<{ id: number; key: string }> {
  const { status, body } = await http('POST', '/api_keys', { body: { key_name: `for ${scope}`, scope } })
  assert.equal(status, 200)
  return body as unknown as { id: number; key: string }
}

test('only a valid, unrevoked key is accepted', async () => {
  const none = await http('GET', '/projects', { key: null })
  refused(none, 401, 'UNAUTHENTICATED', /Authorization: Bearer <key>/)
  assert.equal(none.headers.get('www-authenticate'), 'Bearer')
  const { id, key } = await newKey('admin')
  const wrong = key.slice(0, 20) + (key[20] === 'x' ? 'y' : 'x') + key.slice(21)
  for (const bad of ['', 'x', wrong, `${key}x`])
    refused(await http('GET', '/projects', { key: bad }), 401, 'UNAUTHENTICATED', /key/)
  assert.equal((await http('GET', '/projects', { key })).status, 200)
  assert.equal((await http('DELETE', `/api_keys/${id}`)).body['revoked'], true)
  refused(await http('GET', '/projects', { key }), 401, 'UNAUTHENTICATED', /revoked/)
  refused(await http('DELETE', `/api_keys/${id}`), 404, 'NOT_FOUND', new RegExp(`API key ${id} not found`))
})

test('a key is limited to its scope', async () => {
  const { key: read } = await newKey('read')
  const { key: write } = await newKey('write')
  const uri = `${project}/connection_uri?database_name=neondb&role_name=neondb_owner`
  assert.equal((await http('GET', project, { key: read })).status, 200)
  refused(
    await http('POST', '/projects', { key: read, body: { project: {} } }),
    403,
    'FORBIDDEN',
    /scope read.*needs write/,
  )
  refused(await http('GET', uri, { key: read }), 403, 'FORBIDDEN', /scope read.*needs write/)
  assert.equal((await http('GET', uri, { key: write })).body['uri'], place.uri)
  assert.equal((await http('POST', `${project}/endpoints/${place.endpoint_id}/start`, { key: write })).status, 200)
  for (const [method, path] of [
    ['GET', '/api_keys'],
    ['GET', '/status'],
  ] as const)
    refused(await http(method, path, { key: write }), 403, 'FORBIDDEN', /scope write.*needs admin/)
})

test('keys are created, listed and revoked on the command line', async () => {
  const cli = (...args: string[]) => neapRun(args, envOf(neap.ready.data_dir))
  const made = JSON.parse((await cli('key', 'create', 'from the shell', '--scope', 'read', '--json')).stdout) as {
    id: number
    key: string
  }
  assert.equal((await http('GET', '/projects', { key: made.key })).status, 200)
  const list = await cli('key', 'list')
  assert.match(list.stdout, new RegExp(`^${made.id} +from the shell +read +\\S+ +20\\S+$`, 'm'))
  assert.ok(!list.stdout.includes(made.key))
  const revoked = await cli('key', 'revoke', String(made.id))
  assert.equal(revoked.stdout, `Revoked the key from the shell (${made.id}).\n`)
  assert.equal((await http('GET', '/projects', { key: made.key })).status, 401)
  const again = await cli('key', 'revoke', String(made.id))
  assert.deepEqual([again.code, again.stderr], [1, `neap: API key ${made.id} not found\n`])
})

test('a missing resource is answered 404, an undeclared method 405', async () => {
  const none = '00000000-0000-0000-0000-000000000000'
  for (const [path, what] of [
    ['/projects/none', 'project none'],
    ['/projects/none/branches', 'project none'],
    [`${project}/branches/br-none`, 'branch br-none'],
    [`${project}/endpoints/ep-none`, 'endpoint ep-none'],
    [`${project}/operations/${none}`, `operation ${none}`],
    [`${project}/branches/br-none/roles`, 'branch br-none'],
  ])
    refused(await http('GET', path as string), 404, 'NOT_FOUND', new RegExp(`^${what} not found$`))
  refused(await http('GET', '/nothing'), 404, 'NOT_FOUND', /There is no GET/)
  refused(await http('DELETE', '/projects'), 405, 'METHOD_NOT_ALLOWED', /does not take DELETE, but GET/)
})

test('a bad request is refused with the name of the field', async () => {
  for (const [path, body, field] of [
    ['/projects', { project: { name: 5 } }, /project\.name/],
    ['/projects', { project: { pg_version: '99' } }, /project\.pg_version/],
    ['/projects', { project: [] }, /project/],
    ['/projects', {}, /project/],
    ['/projects', [], /the body/],
    ['/projects', '{"project":', /not valid JSON/],
    [`${project}/branches`, { endpoints: [{ type: 3 }] }, /endpoints\.0\.type/],
    [`${branch}/roles`, { role: {} }, /name/],
    [`${branch}/databases`, { database: { name: 'a', owner_name: null } }, /database\.owner_name/],
  ] as const)
    refused(await http('POST', path, { body }), 400, 'INVALID_REQUEST', field)
  refused(await http('GET', `${project}/operations?limit=0`), 400, 'INVALID_REQUEST', /query parameter limit/)
  refused(await http('GET', `${project}/operations?cursor=x`), 400, 'INVALID_REQUEST', /cursor/)
  refused(await http('GET', `${project}/operations/x`), 400, 'INVALID_REQUEST', /path parameter operation_id/)
})

test('other content types are refused, and an empty body may have any type', async () => {
  const start = `${project}/endpoints/${place.endpoint_id}/start`
  for (const type of ['text/plain', 'application/xml', 'multipart/form-data'])
    refused(await http('POST', start, { body: 'x', type }), 415, 'UNSUPPORTED_MEDIA_TYPE', /application\/json/)
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=utf-8', 'x/y'])
    assert.equal((await http('POST', start, { body: '', type })).status, 200, type)
  const large = { project: { name: 'x'.repeat(2 ** 20) } }
  refused(await http('POST', '/projects', { body: large }), 413, 'BODY_TOO_LARGE', /32 KiB/)
})

test('version 1 is answered 410', async () => {
  for (const path of ['../v1/projects', '../../v1/projects'])
    refused(await http('GET', `/${path}`), 410, 'API_VERSION_GONE', /use \/api\/v2\/projects/)
})
