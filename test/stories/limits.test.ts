import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { catalogClient, catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { type Request, refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { postmastersOf, until } from '../processes.ts'

/* A Neap with narrow settings: the free plan, low limits, strict locking, slow requests. */

let neap: Neap

before(async () => {
  neap = await startNeap({
    args: ['--no-project'],
    env: {
      NEAP_PLAN: 'free',
      NEAP_PROJECTS_LIMIT: '1',
      NEAP_BRANCHES_LIMIT: '2',
      NEAP_ROLES_LIMIT: '2',
      NEAP_DATABASES_LIMIT: '2',
      NEAP_RECOVER_HOURS: '1',
      NEAP_STRICT_LOCKING: 'true',
      NEAP_RATE_LIMIT_PER_SECOND: '50',
    },
  })
})

after(() => neap?.stop())

const http = (method: string, path: string, request?: Request) => send(neap, method, path, request)
const done = { headers: { prefer: 'wait=60' } }

test('the free plan has the smallest size only, and refusals name the exceeded limit', async () => {
  const large = { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 1 }
  refused(
    await http('POST', '/projects', { body: { project: { default_endpoint_settings: large } } }),
    403,
    'PLAN_DOES_NOT_ALLOW',
    /free plan.*0\.25 CU/,
  )
  const { project, branch, endpoints } = (await http('POST', '/projects', { ...done, body: { project: {} } }))
    .body as unknown as { project: { id: string }; branch: { id: string }; endpoints: { id: string }[] }
  const path = `/projects/${project.id}`
  refused(
    await http('PATCH', `${path}/endpoints/${endpoints[0]?.id}`, { body: { endpoint: large } }),
    403,
    'PLAN_DOES_NOT_ALLOW',
    /paid plan/,
  )
  refused(await http('POST', '/projects', { body: { project: {} } }), 422, 'PROJECTS_LIMIT_EXCEEDED', /1 projects/)
  assert.equal((await http('POST', `${path}/branches`, done)).status, 201)
  refused(await http('POST', `${path}/branches`, done), 422, 'BRANCHES_LIMIT_EXCEEDED', /2 branches/)
  // The temporary branch of a restore does not count: a reset works at the limit.
  const { branches } = (await http('GET', `${path}/branches`)).body as unknown as { branches: { id: string }[] }
  const child = branches.find(({ id }) => id !== branch.id)?.id
  assert.equal((await http('POST', `${path}/branches/${child}/reset_to_parent`, done)).status, 200)
  const of = `${path}/branches/${branch.id}`
  assert.equal((await http('POST', `${of}/roles`, { ...done, body: { role: { name: 'a' } } })).status, 201)
  refused(await http('POST', `${of}/roles`, { body: { role: { name: 'b' } } }), 422, 'ROLES_LIMIT_EXCEEDED', /2/)
  const database = (name: string) => ({ body: { database: { name, owner_name: 'a' } } })
  assert.equal((await http('POST', `${of}/databases`, { ...done, ...database('a') })).status, 201)
  refused(await http('POST', `${of}/databases`, database('b')), 422, 'DATABASES_LIMIT_EXCEEDED', /2/)
  const { limits } = (await http('GET', `${path}/limits`)).body as unknown as { limits: Record<string, number> }
  assert.deepEqual([limits['max_branches'], limits['max_fixed_size_cu']], [2, 0.25])
})

test('strict locking answers 423 while operations are unfinished', async () => {
  const { projects } = (await http('GET', '/projects')).body as unknown as { projects: { id: string }[] }
  const path = `/projects/${projects[0]?.id}`
  const { endpoints } = (await http('GET', `${path}/endpoints`)).body as unknown as { endpoints: { id: string }[] }
  const restart = `${path}/endpoints/${endpoints[0]?.id}/restart`
  const key = { headers: { 'idempotency-key': 'locked' } }
  const first = await http('POST', restart)
  assert.equal(first.status, 200)
  const text = /^project already has running conflicting operations, scheduling of new ones is prohibited$/
  refused(await http('POST', restart, key), 423, 'LOCKED', text)
  await neap.ended((first.body as unknown as { operations: { id: string; project_id: string }[] }).operations)
  // A reply of 423 is not stored for its idempotency key.
  assert.equal((await http('POST', restart, { headers: { ...key.headers, ...done.headers } })).status, 200)
})

test('a deleted project can be recovered with its data', async () => {
  interface Listed {
    readonly projects: { id: string; deleted_at?: string; recoverable_until?: string }[]
  }
  const listed = async (filter = '', request?: Request) =>
    ((await http('GET', `/projects${filter}`, request)).body as unknown as Listed).projects
  const [project] = await listed()
  const path = `/projects/${project?.id}`
  const { branches } = (await http('GET', `${path}/branches`)).body as unknown as {
    branches: { id: string; default: boolean }[]
  }
  const { uri } = (await http('GET', `${path}/connection_uri?role_name=neondb_owner&database_name=neondb`))
    .body as unknown as { uri: string }
  await query(neap, uri, 'create table kept as select 1 as one')
  refused(await http('POST', `${path}/recover`), 404, 'NOT_FOUND', /not found among/)

  const narrow = { body: { key_name: 'narrow', project_id: project?.id } }
  const { key = '' } = (await http('POST', '/api_keys', narrow)).body

  assert.equal((await http('DELETE', path)).status, 200)
  refused(await http('GET', path), 404, 'NOT_FOUND', /not found/)
  assert.deepEqual(await listed(), [])
  const [deleted] = await listed('?recoverable=true')
  assert.equal(deleted?.id, project?.id)
  assert.deepEqual(await listed('?recoverable=true', { key }), [deleted])
  assert.ok(Date.parse(deleted?.recoverable_until ?? '') - Date.parse(deleted?.deleted_at ?? '') >= 3_600_000 - 1000)
  await until('its compute has stopped', () => postmastersOf(neap.ready.data_dir).length === 1)
  await assert.rejects(query(neap, uri, 'select 1'), /password authentication failed/)

  // Another project that used the freed quota meanwhile keeps it.
  const { project: other } = (await http('POST', '/projects', { ...done, body: { project: {} } })).body as unknown as {
    project: { id: string }
  }
  refused(await http('POST', `${path}/recover`), 422, 'PROJECTS_LIMIT_EXCEEDED', /1 projects/)
  assert.equal((await listed('?recoverable=true')).length, 1)
  assert.equal((await http('DELETE', `/projects/${other.id}`)).status, 200)

  const recovered = (await http('POST', `${path}/recover`)).body as unknown as { branches: { id: string }[] }
  assert.deepEqual(new Set(recovered.branches.map(({ id }) => id)), new Set(branches.map(({ id }) => id)))
  assert.deepEqual(
    (await listed('?recoverable=true')).map(({ id }) => id),
    [other.id],
  )
  assert.deepEqual(await listed('?recoverable=true', { key }), [], 'a key for one project sees no other')
  assert.deepEqual(await query(neap, uri, 'select one from kept'), [{ one: 1 }])
})

test('of concurrent requests for the last quota one succeeds', async () => {
  const CONCURRENT = 8
  /** Makes all requests start before the first one commits, and returns their outcomes. */
  const atOnce = async (table: string, path: string, body: object) => {
    const holder = await catalogClient(neap)
    await holder.query(`begin; lock table ${table} in share mode`)
    const asked = Promise.all(Array.from({ length: CONCURRENT }, () => http('POST', path, { body })))
    await until('all of them wait', async () => {
      const waiting = await catalogQuery(neap, `select from pg_stat_activity where wait_event_type = 'Lock'`)
      return waiting.length >= CONCURRENT
    })
    await holder.query('commit')
    await holder.end()
    const answers = await asked
    return answers.map(({ status, body: { code } }) => code ?? String(status)).sort()
  }
  const [account] = await catalogQuery<{ id: string }>(neap, 'select id from account')
  await catalogQuery(
    neap,
    `insert into webhook (id, account_id, url, events, enabled, secret)
     select gen_random_uuid(), $1, 'https://example.com', array['branch.ready'], false, '' from generate_series(1, 49)`,
    [account?.id],
  )
  const webhook = { url: 'https://example.com', events: ['branch.ready'], enabled: false }
  const refusals = (code: string) => Array.from({ length: CONCURRENT - 1 }, () => code)
  assert.deepEqual(await atOnce('webhook', '/webhooks', { webhook }), ['201', ...refusals('WEBHOOKS_LIMIT_EXCEEDED')])

  const names = async () =>
    ((await http('GET', '/api_keys')).body as unknown as { name: string }[]).map(({ name }) => name)
  const insert = (many: number, expires_at: string) =>
    catalogQuery(
      neap,
      `insert into api_key (account_id, name, scope, hash, expires_at)
       select $1, 'many', 'read', uuid_send(gen_random_uuid()), $3::timestamptz from generate_series(1, $2)`,
      [account?.id, many, expires_at],
    )
  // Expired keys do not count.
  await insert(10, '2020-01-01')
  assert.ok(!(await names()).includes('many'))
  await insert(999 - (await names()).length, '2100-01-01')
  assert.deepEqual(await atOnce('api_key', '/api_keys', { key_name: 'last' }), [
    '200',
    ...refusals('API_KEYS_LIMIT_EXCEEDED'),
  ])
  assert.equal((await names()).length, 1000)
  await catalogQuery(neap, `delete from api_key where name = 'many'`)
})

test('rate-limited requests are refused with a retry time', async () => {
  const answers = await Promise.all(Array.from({ length: 200 }, () => http('GET', '/projects')))
  const limited = answers.filter(({ status }) => status === 429)
  assert.ok(limited.length > 0 && limited.length < answers.length)
  for (const answer of limited) {
    refused(answer, 429, 'RATE_LIMITED', /50 requests in a second/)
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  }
  const guesses = await Promise.all(Array.from({ length: 200 }, () => http('GET', '/projects', { key: 'neap_guess' })))
  assert.deepEqual(new Set(guesses.map(({ status }) => status)), new Set([401, 429]))
  // Another family of routes has a separate limit.
  assert.equal((await http('GET', '/api_keys')).status, 200)
})
