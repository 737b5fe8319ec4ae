import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/* Harmless habits of clients in other languages, byte for byte: Neap accepts them all. */

let neap: Neap
let place: Place
let project: string

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  project = `projects/${place.project_id}`
})

after(() => neap?.stop())

interface Operation {
  readonly id: string
  readonly project_id: string
  readonly action: string
  readonly status: string
}

interface Resource {
  readonly id: string
  readonly provisioner: string
  readonly settings: Record<string, unknown>
  readonly name: string
  readonly branch_id: string
}

type Body = Record<'project' | 'branch' | 'endpoint' | 'role', Resource> & {
  readonly operation: Operation
  readonly operations: Operation[]
  readonly endpoints: Resource[]
  readonly projects: Resource[]
  readonly uri: string
  readonly message: string
}

interface Asked {
  readonly headers?: Record<string, string>
  readonly body?: string
}

/** Sends exactly this: no content type or body unless given. */
async function ask(method: string, path: string, { headers = {}, body }: Asked = {}) {
  const response = await fetch(`${neap.ready.api_url}/${path}`, {
    method,
    headers: { authorization: `Bearer ${neap.ready.api_key}`, ...headers },
    // fetch adds a content type to text, not to bytes.
    ...(body !== undefined && { body: Buffer.from(body) }),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Body }
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const JSON_TYPE = { 'content-type': 'application/json' }

const json = (method: string, path: string, body: unknown) =>
  ask(method, path, { headers: JSON_TYPE, body: JSON.stringify(body) })

/** Asserts success and waits for the operations. */
async function done(answer: Promise<{ status: number; body: Body }>): Promise<Body> {
  const { status, body } = await answer
  assert.ok(status === 200 || status === 201, `${status} ${body.message}`)
  await neap.ended(body.operations ?? [])
  return body
}

test('an empty body with the content type of a form, as of axios, is accepted', async () => {
  const endpoint = `${project}/endpoints/${place.endpoint_id}`
  for (const verb of ['suspend', 'start', 'restart'])
    await done(ask('POST', `${endpoint}/${verb}`, { headers: FORM, body: '' }))
  const branch = `${project}/branches/${place.branch_id}`
  await done(ask('POST', `${branch}/set_as_default`, { headers: FORM, body: '' }))
  await done(ask('POST', `${branch}/roles/neondb_owner/reset_password`, { headers: FORM, body: '' }))
})

test('a request without body and content type, as of fetch, is accepted', async () => {
  await done(ask('POST', `${project}/endpoints/${place.endpoint_id}/start`))
})

test('a JSON content type without a body, as of Go and Python, is accepted', async () => {
  for (const path of ['projects', project, `${project}/branches`, `${project}/endpoints`, 'users/me'])
    assert.equal((await ask('GET', path, { headers: JSON_TYPE })).status, 200, path)
  const { branch } = await done(ask('POST', `${project}/branches`, { headers: JSON_TYPE }))
  const deletion = await done(ask('DELETE', `${project}/branches/${branch.id}`, { headers: JSON_TYPE, body: '' }))
  assert.equal(deletion.branch.id, branch.id)
  assert.equal((await ask('DELETE', `${project}/branches/${branch.id}`, { headers: JSON_TYPE })).status, 404)
})

test('booleans in the notation of Python, True and False, are accepted', async () => {
  const uri = async (pooled: string) => {
    const query = `database_name=neondb&role_name=neondb_owner&pooled=${pooled}`
    const { status, body } = await ask('GET', `${project}/connection_uri?${query}`, { headers: JSON_TYPE })
    assert.equal(status, 200, `pooled=${pooled}: ${body.message}`)
    return body.uri.includes(`${place.endpoint_id}-pooler`)
  }
  for (const yes of ['True', 'true', 'TRUE', '1', 't']) assert.equal(await uri(yes), true, yes)
  for (const no of ['False', 'false', 'FALSE', '0', 'f', '']) assert.equal(await uri(no), false, no)
})

test("Terraform's empty values are defaults, and an update may name the branch of an endpoint", async () => {
  const unset = { region_id: '', provisioner: '' }
  const asked = { name: '', ...unset, branch: { name: '', role_name: '', database_name: '' } }
  const made = await done(json('POST', 'projects', { project: { ...asked, settings: {}, store_passwords: true } }))
  assert.equal(made.project.name, made.project.id)
  assert.equal(made.branch.name, 'main')
  const its = `projects/${made.project.id}`
  const branch = { name: '', parent_id: '', parent_lsn: '', protected: false }
  const child = await done(json('POST', `${its}/branches`, { branch }))
  assert.equal(child.branch.name, child.branch.id)
  const endpoint = { ...unset, type: 'read_write', pooler_mode: '', suspend_timeout_seconds: 0, settings: {} }
  const branch_id = child.branch.id
  const added = await done(json('POST', `${its}/endpoints`, { endpoint: { branch_id, ...endpoint } }))
  const { type: _type, ...same } = endpoint
  const path = `${its}/endpoints/${added.endpoint.id}`
  const patched = await done(json('PATCH', path, { endpoint: { branch_id, ...same } }))
  assert.equal(patched.endpoint.branch_id, branch_id)
  assert.deepEqual(
    patched.operations.filter(({ action }) => action === 'suspend_compute'),
    [],
    'the endpoint stays where it is',
  )
  await done(ask('DELETE', its, { headers: JSON_TYPE }))
})

test('Terraform reads a project without a difference to its configuration', async () => {
  const quota = {}
  const unset = { name: '', provisioner: '', region_id: '', store_passwords: true, history_retention_seconds: 86_400 }
  const plain = await done(json('POST', 'projects', { project: { ...unset, settings: { quota } } }))
  const shown = { allowed_ips: { ips: [], protected_branches_only: false }, enable_logical_replication: false, quota }
  assert.deepEqual([plain.project.provisioner, plain.project.settings], ['k8s-pod', shown])

  const provisioner = 'k8s-neonvm'
  const its = `projects/${(await done(json('POST', 'projects', { project: { ...unset, provisioner } }))).project.id}`
  const { settings } = (await done(json('PATCH', its, { project: { settings: { allowed_ips: {} } } }))).project
  const { quota: _quota, ...always } = shown
  assert.deepEqual(settings, always)
  assert.equal((await done(ask('GET', its))).project.provisioner, provisioner)
  const [made] = (await done(ask('GET', `${its}/endpoints`))).endpoints
  assert.deepEqual([made?.provisioner, made?.settings], [provisioner, { pg_settings: {} }])
  const path = `${its}/endpoints/${made?.id}`
  const change = (asked: object) => done(json('PATCH', path, { endpoint: { branch_id: made?.branch_id, ...asked } }))
  assert.deepEqual((await change({ provisioner, settings: { pg_settings: {} } })).operations, [])
  assert.equal((await change({ provisioner: 'k8s-pod' })).endpoint.provisioner, 'k8s-pod')
  assert.equal((await done(ask('GET', path))).endpoint.provisioner, 'k8s-pod')
  for (const each of [plain.project.id, its.replace('projects/', '')]) await done(ask('DELETE', `projects/${each}`))
})

test('a form-encoded body has the effect of the JSON body', async () => {
  const { branch } = await done(ask('POST', `${project}/branches`, { headers: FORM, body: 'branch[name]=by+form' }))
  assert.equal(branch.name, 'by form')
  const body = `endpoint[branch_id]=${branch.id}&endpoint[type]=read_write&endpoint[suspend_timeout_seconds]=600`
  const { endpoint } = await done(ask('POST', `${project}/endpoints`, { headers: FORM, body }))
  assert.equal(endpoint.branch_id, branch.id)
  await done(ask('DELETE', `${project}/branches/${branch.id}`))
})

test('unknown fields and query parameters are ignored', async () => {
  const { body } = await ask('GET', 'projects?limit=1&timeout=1000&org_id=&a_later_option=x', { headers: JSON_TYPE })
  assert.equal(body.projects[0]?.id, place.project_id)
  const later = { name: 'later', a_later_field: { x: 1 } }
  const { branch } = await done(json('POST', `${project}/branches`, { branch: later, annotation_value: {} }))
  assert.equal(branch.name, 'later')
  await done(ask('DELETE', `${project}/branches/${branch.id}`))
})

test('every answer has a request id, and is uncompressed whatever the client accepts', async () => {
  const headers = { 'accept-encoding': 'gzip, deflate, br', 'x-request-id': 'mine', 'user-agent': 'neonctl v2.36.0' }
  for (const path of ['projects', 'nothing']) {
    const answer = await ask('GET', path, { headers })
    assert.match(answer.headers.get('x-neon-ret-request-id') ?? '', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    assert.match(answer.headers.get('content-type') ?? '', /^application\/json\b/)
  }
})

test('operations can be polled often, as Terraform does, until they have finished', async () => {
  const made = await json('POST', `${project}/branches`, { endpoints: [{ type: 'read_write' }] })
  const { operations, endpoints } = made.body
  assert.deepEqual(
    operations.map(({ action }) => action),
    ['create_branch', 'start_compute'],
  )
  for (const { id } of operations) {
    const status = await until(`the end of ${id}`, async () => {
      const { body } = await ask('GET', `${project}/operations/${id}`, { headers: JSON_TYPE })
      return !['scheduling', 'running'].includes(body.operation.status) && body.operation.status
    })
    assert.equal(status, 'finished')
  }
  await done(ask('DELETE', `${project}/branches/${endpoints[0]?.branch_id}`))
})
