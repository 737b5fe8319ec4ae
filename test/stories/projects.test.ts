import assert from 'node:assert/strict'
import { existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { type Answer, refused, type Request, send } from '../http.ts'
import { type Neap, run, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/* Projects from creation to deletion of their data, and the audit log. */

let neap: Neap
let place: Place
/** Projects that the second test creates, besides the first project. */
const others: string[] = []

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
})

after(() => neap?.stop())

const http = (method: string, path: string, request?: Request) => send(neap, method, path, request)

interface Endpoint {
  readonly id: string
  readonly branch_id: string
  readonly type: string
  readonly current_state: string
  readonly pending_state?: string
  readonly last_active?: string
  readonly autoscaling_limit_min_cu: number
  readonly autoscaling_limit_max_cu: number
  readonly suspend_timeout_seconds: number
  readonly settings: { pg_settings?: Record<string, string> }
}

interface Operation {
  readonly id: string
  readonly project_id: string
  readonly action: string
  readonly status: string
}

interface Entry {
  readonly id: number
  readonly action: string
  readonly status: number
  readonly request_id: string
  readonly project_id?: string
  readonly api_key_id?: number
}

/** Fields of answers; each answer has some of them. */
interface Body {
  readonly project: Record<string, unknown> & { id: string; name: string }
  readonly projects: { id: string; name: string; org_id: string }[]
  readonly pagination?: { cursor: string }
  readonly branch: { id: string; name: string; default: boolean; current_state: string; pending_state?: string }
  readonly branches: { id: string }[]
  readonly endpoints: Endpoint[]
  readonly endpoint: Endpoint
  readonly roles: { name: string; password?: string }[]
  readonly databases: { name: string; owner_name: string }[]
  readonly connection_uris: { connection_uri: string }[]
  readonly operations: Operation[]
  readonly operation: Operation
  readonly uri: string
  readonly limits: Record<string, number>
  readonly audit: Entry[]
  /** Of a key or of an account. */
  readonly id: unknown
  readonly key: string
  readonly name: string
  readonly email: string
}

/** Asserts the status of an answer and returns its body. */
function body({ status, body: found }: Answer, expected = 200): Body {
  assert.equal(status, expected, found.message)
  return found as unknown as Body
}

const create = async (project: object) => body(await http('POST', '/projects', { body: { project } }), 201)
const patch = (project: object) => http('PATCH', `/projects/${place.project_id}`, { body: { project } })

test('a new project has its branch main, a role, a database and a read-write endpoint that starts', async () => {
  const made = await create({ name: 'whole' })
  const [endpoint] = made.endpoints
  assert.deepEqual([made.branch.name, made.branch.default], ['main', true])
  assert.deepEqual([made.branch.current_state, made.branch.pending_state], ['init', 'ready'])
  assert.deepEqual(
    made.endpoints.map(({ branch_id, type }) => [branch_id, type]),
    [[made.branch.id, 'read_write']],
  )
  assert.deepEqual(
    [endpoint?.current_state, endpoint?.pending_state, endpoint?.last_active],
    ['init', 'active', undefined],
  )
  assert.deepEqual([endpoint?.autoscaling_limit_min_cu, endpoint?.autoscaling_limit_max_cu], [0.25, 0.25])
  assert.deepEqual(
    made.databases.map(({ name, owner_name }) => [name, owner_name]),
    [['neondb', 'neondb_owner']],
  )
  assert.deepEqual(
    made.operations.map(({ action, status }) => [action, ['scheduling', 'running'].includes(status)]),
    [
      ['create_timeline', true],
      ['start_compute', true],
    ],
  )
  // The operations are not awaited: a client that connects now is admitted once the compute is ready.
  const [uri] = made.connection_uris
  assert.deepEqual(await query(neap, uri?.connection_uri ?? '', 'select current_user as role'), [
    { role: made.roles[0]?.name },
  ])
  await neap.ended(made.operations)
  const { endpoints } = body(await http('GET', `/projects/${made.project.id}/endpoints`))
  assert.deepEqual(
    endpoints.map((each) => [each.current_state, 'pending_state' in each, 'last_active' in each]),
    [['active', false, true]],
  )
  assert.equal(made.project['pg_version'], 18)
  others.push(made.project.id)
})
const page = async (asked: Record<string, string>) =>
  body(await http('GET', `/projects?${new URLSearchParams(asked).toString()}`))

test('projects are listed in pages, each exactly once, searched, and filtered by organization', async () => {
  for (const name of ['Searched 100%', 'another']) others.push((await create({ name })).project.id)
  const all = [place.project_id, ...others]
  for (const limit of ['1', '3', '4', '400']) {
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const found = await page({ limit, ...(cursor && { cursor }) })
      assert.ok(found.projects.length <= Number(limit))
      seen.push(...found.projects.map(({ id }) => id))
      cursor = found.pagination?.cursor
    } while (cursor !== undefined)
    assert.deepEqual(seen, all.toSorted(), `by ${limit}`)
  }
  const named = async (search: string) => (await page({ search })).projects.map(({ name }) => name)
  assert.deepEqual(await named('searched'), ['Searched 100%'])
  assert.deepEqual(await named('0%'), ['Searched 100%'])
  assert.deepEqual(await named('%searched'), [])
  assert.deepEqual(await named(others[2] ?? ''), ['another'])
  const { projects } = body(await http('GET', '/projects'))
  const [org_id] = new Set(projects.map((each) => each.org_id))
  assert.equal((await page({ org_id: org_id ?? '' })).projects.length, all.length)
  refused(await http('GET', '/projects?org_id=org-none-none-00000000'), 404, 'NOT_FOUND', /organization/)
  for (const limit of [0, 401, 'x'])
    refused(await http('GET', `/projects?limit=${limit}`), 400, 'INVALID_REQUEST', /query parameter limit/)
})

test('a change of a project keeps other fields, and its defaults apply to new endpoints', async () => {
  const allowed_ips = { ips: ['127.0.0.1', '::1/128', '10.0.0.1-10.0.0.9'] }
  const changed = body(await patch({ name: 'renamed', settings: { allowed_ips }, history_retention_seconds: 3600 }))
  assert.deepEqual([changed.project.name, changed.operations], ['renamed', []])
  const defaults = { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 3 }
  body(await patch({ default_endpoint_settings: { ...defaults, pg_settings: { work_mem: '7MB' } } }))
  body(await patch({ default_endpoint_settings: { suspend_timeout_seconds: 120 } }))
  const maintenance_window = { weekdays: [6, 7], start_time: '02:00', end_time: '05:30' }
  body(await patch({ settings: { maintenance_window, hipaa: false } }))
  body(await patch({ settings: { quota: { active_time_seconds: 0 }, preload_libraries: { use_defaults: true } } }))
  const { project } = body(await http('GET', `/projects/${place.project_id}`))
  const shownSettings = {
    allowed_ips: { ...allowed_ips, protected_branches_only: false },
    enable_logical_replication: false,
    maintenance_window,
    hipaa: false,
    quota: { active_time_seconds: 0 },
    preload_libraries: { use_defaults: true },
  }
  assert.deepEqual(
    [project.name, project['settings'], project['history_retention_seconds'], project['default_endpoint_settings']],
    ['renamed', shownSettings, 3600, { ...defaults, pg_settings: { work_mem: '7MB' }, suspend_timeout_seconds: 120 }],
  )

  const answer = await http('POST', `/projects/${place.project_id}/branches`, {
    body: { endpoints: [{ type: 'read_write' }] },
    headers: { prefer: 'wait=60' },
  })
  const made = body(answer, 201)
  const [endpoint] = made.endpoints
  assert.deepEqual(
    [endpoint?.autoscaling_limit_min_cu, endpoint?.autoscaling_limit_max_cu, endpoint?.suspend_timeout_seconds],
    [1, 3, 120],
  )
  const uri = place.uri.replace(place.endpoint_id, endpoint?.id ?? '')
  assert.deepEqual(await query(neap, uri, 'show work_mem'), [{ work_mem: '7MB' }])
  const first = body(await http('GET', `/projects/${place.project_id}/endpoints/${place.endpoint_id}`)).endpoint
  assert.deepEqual([first.autoscaling_limit_max_cu, first.settings], [0.25, { pg_settings: {} }])

  for (const [wrong, status, code, problem] of [
    [{ settings: { allowed_ips: { ips: ['here'] } } }, 422, 'NOT_ALLOWED', /allowed_ips has "here"/],
    [
      { settings: { allowed_ips: { ips: Array.from({ length: 101 }, (_, n) => `10.0.0.${n}`) } } },
      422,
      'NOT_ALLOWED',
      /allowed_ips has 101 entries: give at most 100/,
    ],
    [{ settings: { allowed_ips: { ips: ['10.0.0.0/8/more'] } } }, 422, 'NOT_ALLOWED', /allowed_ips has/],
    [{ settings: { hipaa: true } }, 422, 'NOT_ALLOWED', /hipaa/],
    [{ settings: { audit_log_level: 'base' } }, 422, 'NOT_ALLOWED', /audit_log_level .* leave it out/],
    [
      { settings: { preload_libraries: { enabled_libraries: ['auto_explain'] } } },
      422,
      'NOT_ALLOWED',
      /preload_libraries\.enabled_libraries must be empty/,
    ],
    [
      { settings: { maintenance_window: { ...maintenance_window, start_time: '25:00' } } },
      400,
      'INVALID_REQUEST',
      /maintenance_window\.start_time/,
    ],
    [{ default_endpoint_settings: { pgbouncer_settings: { a: 'b' } } }, 422, 'NOT_ALLOWED', /pgbouncer_settings/],
    [{ history_retention_seconds: -1 }, 400, 'INVALID_REQUEST', /history_retention_seconds/],
    [{ name: 7 }, 400, 'INVALID_REQUEST', /project\.name/],
    [
      { default_endpoint_settings: { autoscaling_limit_min_cu: 0.5 } },
      422,
      'AUTOSCALING_RANGE_NOT_SUPPORTED',
      /from 1 to 7/,
    ],
    [
      { default_endpoint_settings: { pg_settings: { archive_command: 'id' } } },
      422,
      'PG_SETTINGS_NOT_ALLOWED',
      /archive_command/,
    ],
    [{ default_endpoint_settings: { suspend_timeout_seconds: 5 } }, 422, 'SUSPEND_TIMEOUT_NOT_SUPPORTED', /60 to/],
  ] as const)
    refused(await patch(wrong), status, code, problem)
  // What it uses counts meanwhile.
  const { written_data_bytes, data_transfer_bytes, data_storage_bytes_hour } = project
  const later = body(await http('GET', `/projects/${place.project_id}`)).project
  assert.deepEqual({ ...later, written_data_bytes, data_transfer_bytes, data_storage_bytes_hour }, project)
})

test('a project has its owner and its limits, and is shared with no other account', async () => {
  const { project } = body(await http('GET', `/projects/${place.project_id}`))
  const me = body(await http('GET', '/users/me'))
  const owner = project['owner'] as Record<string, unknown>
  assert.deepEqual([owner['email'], owner['name'], project['owner_id']], [me['email'], me['name'], me['id']])
  const { limits } = body(await http('GET', `/projects/${place.project_id}/limits`))
  assert.deepEqual(
    [limits['max_branches'], limits['max_autoscaling_cu'], limits['max_fixed_size_cu']],
    [owner['branches_limit'], 7, 7],
  )
  assert.deepEqual(body(await http('GET', '/projects/shared')), { projects: [] })
})

test('an invalid project is refused and not created', async () => {
  for (const [wrong, status, code, problem] of [
    [{ pg_version: 14 }, 422, 'NOT_ALLOWED', /pg_version is 14; it takes 15, 16, 17, 18/],
    [{ pg_version: 19 }, 422, 'NOT_ALLOWED', /pg_version is 19/],
    [{ provisioner: 'mine' }, 422, 'NOT_ALLOWED', /provisioner is mine; it takes k8s-pod, k8s-neonvm/],
    [{ region_id: 'elsewhere' }, 422, 'NOT_ALLOWED', /no region elsewhere/],
    [{ org_id: 'org-none-none-00000000' }, 404, 'NOT_FOUND', /organization/],
    [{ store_passwords: false }, 422, 'NOT_ALLOWED', /store_passwords/],
    [{ autoscaling_limit_min_cu: 8, autoscaling_limit_max_cu: 8 }, 422, 'COMPUTE_SIZE_NOT_SUPPORTED', /0\.25 to 7/],
    [{ branch: { role_name: 'pg_x' } }, 422, 'NOT_ALLOWED', /name/],
    [{ branch: { database_name: 'template0' } }, 422, 'NOT_ALLOWED', /name|template0/],
  ] as const)
    refused(await http('POST', '/projects', { body: { project: wrong } }), status, code, problem)
  assert.equal((await page({ limit: '400' })).projects.length, others.length + 1)
})

const uninstalled = [17, 16, 15].find((version) => !existsSync(`/usr/lib/postgresql/${version}/bin/postgres`))

test(
  'an uninstalled version of Postgres is refused with the list of installed ones',
  {
    skip: uninstalled === undefined && 'every version is installed',
  },
  async () => {
    const answer = await http('POST', '/projects', { body: { project: { pg_version: uninstalled } } })
    refused(
      answer,
      422,
      'NOT_ALLOWED',
      new RegExp(`^pg_version is ${uninstalled}; installed .*\\b18\\b.*postgresql-${uninstalled}`),
    )
  },
)

test('a deleted project is not found at once; its operations show when its data is removed', async () => {
  const [id = ''] = others
  const path = `/projects/${id}`
  const uri = body(await http('GET', `${path}/connection_uri?database_name=neondb&role_name=neondb_owner`)).uri
  const { branches } = body(await http('GET', `${path}/branches`))
  const deleted = body(await http('DELETE', path))
  assert.deepEqual([deleted.project.id, Object.keys(deleted)], [id, ['project']])
  const notFound = new RegExp(`^project ${id} not found$`)
  for (const [method, where] of [
    ['GET', path],
    ['DELETE', path],
    ['GET', `${path}/branches`],
    ['GET', `${path}/branches/${branches[0]?.id}`],
    ['GET', `${path}/endpoints`],
    ['POST', `${path}/branches`],
  ] as const)
    refused(await http(method, where), 404, 'NOT_FOUND', notFound)
  refused(await http('POST', `${path}/recover`), 404, 'NOT_FOUND', /not found among those that can be recovered/)
  assert.ok(!(await page({ limit: '400' })).projects.some((each) => each.id === id))
  await assert.rejects(query(neap, uri, 'select 1'), /password authentication failed/)

  const list = async () => body(await http('GET', `${path}/operations`)).operations
  const [removal] = await list()
  assert.equal(removal?.action, 'delete_tenant')
  await neap.ended([removal])
  const operations = await list()
  assert.deepEqual(
    operations
      .filter(({ action }) => ['delete_tenant', 'create_timeline'].includes(action))
      .map(({ status }) => status),
    ['finished', 'finished'],
  )
  const one = await http('GET', `${path}/operations/${removal.id}`)
  assert.deepEqual(body(one).operation, operations[0])
})

test('the audit list is paged, newest first, and requires an admin key', async () => {
  const audit = async (asked: Record<string, string>) =>
    body(await http('GET', `/audit?${new URLSearchParams(asked).toString()}`))
  const key = body(await http('POST', '/api_keys', { body: { key_name: 'auditor' } }))
  const missing = await http('DELETE', `/projects/${place.project_id}/branches/br-none`, { key: key.key })
  const { audit: all } = await audit({ limit: '1000' })
  const [last] = all
  assert.deepEqual(
    [last?.action, last?.status, last?.project_id, last?.api_key_id, last?.request_id],
    [
      'DELETE /projects/:project_id/branches/:branch_id',
      404,
      place.project_id,
      key.id,
      missing.headers.get('x-request-id'),
    ],
  )
  const ids = all.map(({ id }) => id)
  assert.deepEqual(
    ids,
    ids.toSorted((one, other) => other - one),
  )
  for (const [asked, expected] of [
    [{ limit: '7' }, all],
    [{ limit: '2', project_id: place.project_id }, all.filter(({ project_id }) => project_id === place.project_id)],
  ] as const) {
    const seen: Entry[] = []
    let cursor: string | undefined
    do {
      const found = await audit({ ...asked, ...(cursor && { cursor }) })
      seen.push(...found.audit)
      cursor = found.pagination?.cursor
      // New entries are written between two pages.
      await http('DELETE', `/projects/${place.project_id}/branches/br-none`)
    } while (cursor !== undefined)
    const known = new Set(ids)
    assert.deepEqual(
      seen.filter(({ id }) => known.has(id)),
      expected,
    )
  }
  for (const scope of ['read', 'write']) {
    const lesser = body(await http('POST', '/api_keys', { body: { key_name: scope, scope } }))
    refused(await http('GET', '/audit', { key: lesser.key }), 403, 'FORBIDDEN', /needs admin/)
  }
  refused(await http('GET', '/audit?limit=1001'), 400, 'INVALID_REQUEST', /limit/)
  refused(await http('GET', '/audit?cursor=x'), 400, 'INVALID_REQUEST', /cursor/)
})

test('a new project is not active before it has its roles and databases', async () => {
  const { data_dir } = neap.ready
  // CREATE DATABASE copies template0, which is there later only.
  const [base, aside] = [join(data_dir, 'templates', '18', 'pgdata', 'base'), join(data_dir, 'templates', 'aside')]
  renameSync(join(base, '4'), aside)
  const made = await neap.call('POST /projects', { body: { project: {} } })
  const start = made.operations.find(({ action }) => action === 'start_compute')
  const params = { project_id: made.project.id, operation_id: start?.id ?? '' }
  await until('a start that waits', async () => {
    const { operation } = await neap.call('GET /projects/:project_id/operations/:operation_id', { params })
    return operation.status === 'running' && operation.wait_reason?.includes('create_database "neondb"')
  })
  renameSync(aside, join(base, '4'))
  const store = join(data_dir, 'branches', made.branch.id, 'pgdata', 'base')
  assert.equal((await run('cp', ['-a', join(base, '4'), store])).code, 0)
  assert.equal((await run('chown', ['-R', `--reference=${store}`, join(store, '4')])).code, 0)
  await neap.ended(made.operations)
  await query(neap, made.connection_uris[0]?.connection_uri ?? '', 'select 1')
})
