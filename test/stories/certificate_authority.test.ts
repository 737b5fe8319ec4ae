import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { send } from '../http.ts'
import { type Neap, envOf, neapRun, startNeap } from '../neap.ts'

/* What clients verify the server with, and lists of a part of what there is. */

let neap: Neap
const project = () => ({ project_id: neap.ready.project_id ?? '' })

before(async () => {
  neap = await startNeap()
})

after(() => neap?.stop())

test('the authority is the file that the proxy signs with, for every key', async () => {
  const { certificates } = await neap.call('GET /certificate_authority', {})
  assert.equal(certificates, readFileSync(neap.ready.ca_file ?? '', 'utf8'))
  assert.ok(new X509Certificate(certificates).ca)
  assert.doesNotMatch(certificates, /PRIVATE/)
  const { key } = await neap.call('POST /api_keys', { body: { key_name: 'narrow', scope: 'read', ...project() } })
  assert.equal((await send(neap, 'GET', '/certificate_authority', { key })).status, 200)
  assert.equal((await send(neap, 'GET', '/certificate_authority', { key: 'none' })).status, 401)
})

test('neap ca prints it', async () => {
  const { data_dir } = neap.ready
  const { stdout, code } = await neapRun(['ca', '--data-dir', data_dir], envOf(data_dir))
  assert.equal(code, 0)
  assert.equal(stdout, readFileSync(neap.ready.ca_file ?? '', 'utf8'))
})

test('the endpoints of some branches are listed alone', async () => {
  const made = await neap.call('POST /projects/:project_id/branches', {
    params: project(),
    body: { branch: { name: 'other' }, endpoints: [{ type: 'read_write' }] },
  })
  await neap.ended(made.operations)
  const list = async (branch_ids?: string[]) =>
    (
      await neap.call('GET /projects/:project_id/endpoints', { params: project(), query: { branch_ids } })
    ).endpoints.map(({ branch_id }) => branch_id)
  assert.equal((await list()).length, 2)
  assert.deepEqual(await list([made.branch.id]), [made.branch.id])
  assert.deepEqual(await list(['br-none']), [])
  const many = Array.from({ length: 201 }, (_, index) => `branch_ids=br-${index}`).join('&')
  assert.equal((await send(neap, 'GET', `/projects/${project().project_id}/endpoints?${many}`)).status, 400)
})

test('the audit list is filtered by key, action and time', async () => {
  const { id, key } = await neap.call('POST /api_keys', { body: { key_name: 'audited' } })
  for (const name of ['one', 'two'])
    assert.equal((await send(neap, 'POST', '/projects', { key, body: { project: { name } } })).status, 201)
  const rename = { key, body: { project: { name: 'renamed' } } }
  await send(neap, 'PATCH', `/projects/${project().project_id}`, rename)
  const list = async (query: Record<string, string | number>) =>
    (await neap.call('GET /audit', { query: { limit: 100, ...query } })).audit
  const all = await list({ api_key_id: id })
  assert.deepEqual(
    all.map(({ action }) => action),
    ['PATCH /projects/:project_id', 'POST /projects', 'POST /projects'],
  )
  assert.deepEqual(
    (await list({ api_key_id: id, action: 'POST /projects' })).map((each) => each.id),
    all.slice(1).map((each) => each.id),
  )
  const [latest, between] = all
  assert.ok(latest && between)
  const idsOf = async (query: Record<string, string>) =>
    (await list({ api_key_id: id, ...query })).map((each) => each.id)
  assert.deepEqual(await idsOf({ from: latest.created_at }), [latest.id])
  assert.deepEqual(
    await idsOf({ to: latest.created_at }),
    all.slice(1).map((each) => each.id),
  )
  assert.deepEqual(await idsOf({ from: new Date(Date.now() + 3_600_000).toISOString() }), [])
  assert.deepEqual(await list({ person_id: '00000000-0000-4000-8000-000000000000' }), [])
  for (const wrong of ['person_id=x', 'api_key_id=-1', 'from=yesterday'])
    assert.equal((await send(neap, 'GET', `/audit?${wrong}`)).status, 400, wrong)
})
