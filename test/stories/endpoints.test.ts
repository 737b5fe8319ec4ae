import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { connect, query } from '../clients.ts'
import { type Answer, refused, type Request, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, endpointOf, firstPlace, type Place, suspend } from '../project.ts'

/* Changes of endpoints over the API, and their effect in Postgres. */

let neap: Neap
let place: Place
let project: string
let endpoint: string

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  project = `/projects/${place.project_id}`
  endpoint = `${project}/endpoints/${place.endpoint_id}`
})

after(() => neap?.stop())

const http = (method: string, path: string, request?: Request) => send(neap, method, path, request)

interface Changed {
  readonly endpoint: {
    branch_id: string
    host: string
    current_state: string
    pending_state?: string
    disabled: boolean
  }
  readonly operations: { id: string; project_id: string; action: string; branch_id: string }[]
}

/**
 * Changes the endpoint, asserts the actions of its operations, waits for them, and returns the endpoint of the answer.
 */
async function change(attributes: object, actions: string[]): Promise<Changed['endpoint']> {
  const answer = await http('PATCH', endpoint, { body: { endpoint: attributes } })
  assert.equal(answer.status, 200, answer.body.message)
  const changed = answer.body as unknown as Changed
  assert.deepEqual(
    changed.operations.map(({ action }) => action),
    actions,
  )
  await neap.ended(changed.operations)
  return changed.endpoint
}

const patch = (attributes: object): Promise<Answer> => http('PATCH', endpoint, { body: { endpoint: attributes } })
const show = async (name: string) => (await query(neap, place.uri, `show ${name}`))[0]?.[name] as string
const startedAt = async () =>
  (await query(neap, place.uri, 'select pg_postmaster_start_time()::text as at'))[0]?.['at'] as string | undefined

test('a change of size is applied to the running compute without ending its sessions', async () => {
  const client = await connect(neap, place.uri)
  const small = await show('effective_cache_size')
  const changed = await change({ autoscaling_limit_min_cu: 2, autoscaling_limit_max_cu: 2 }, ['apply_config'])
  assert.deepEqual([changed.current_state, changed.pending_state], ['active', 'active'])
  assert.notEqual(await show('effective_cache_size'), small)
  assert.deepEqual((await client.query('select 1 as one')).rows, [{ one: 1 }])
  await client.end()
  refused(await patch({ autoscaling_limit_max_cu: 3 }), 422, 'ENDPOINT_MODE_CHANGE_NOT_SUPPORTED', /fixed size/)
  refused(
    await patch({ autoscaling_limit_min_cu: 2.1, autoscaling_limit_max_cu: 2.1 }),
    422,
    'COMPUTE_SIZE_NOT_SUPPORTED',
    /0\.25 to 7/,
  )
})

test('settings are reloaded if Postgres allows it, and otherwise need a restart', async () => {
  await query(neap, place.uri, 'select 1')
  const first = await startedAt()
  await change({ settings: { pg_settings: { work_mem: '9MB', statement_timeout: '1h' } } }, ['apply_config'])
  assert.deepEqual([await show('work_mem'), await show('statement_timeout')], ['9MB', '1h'])
  assert.equal(await startedAt(), first)

  await change({ settings: { pg_settings: { track_activity_query_size: '4kB' } } }, ['apply_config'])
  assert.equal(await show('track_activity_query_size'), '4kB')
  assert.notEqual(await show('work_mem'), '9MB')
  assert.notEqual(await startedAt(), first)

  for (const [settings, problem] of [
    [{ archive_command: 'id', work_mem: '1MB' }, /archive_command\.$/],
    [{ fsync: 'off', shared_preload_libraries: 'x', ssl: 'off' }, /fsync, shared_preload_libraries, ssl/],
    [{ work_mem: 'much' }, /work_mem = "much"/],
    [{ work_mem: '1kB' }, /work_mem/],
    [{ jit: 'maybe' }, /jit/],
    [{ work_mem: "1MB'\nfsync = 'off" }, /work_mem/],
  ] as const)
    refused(await patch({ settings: { pg_settings: settings } }), 422, 'PG_SETTINGS_NOT_ALLOWED', problem)
  refused(await patch({ settings: { pg_settings: { work_mem: 4 } } }), 400, 'INVALID_REQUEST', /work_mem/)
  await change({ settings: { pg_settings: {} } }, ['apply_config'])
})

test('a change of an idle endpoint takes effect at its next wake', async () => {
  await suspend(neap, place)
  const changed = await change({ settings: { pg_settings: { work_mem: '11MB' } } }, ['apply_config'])
  assert.deepEqual([changed.current_state, changed.pending_state], ['idle', 'idle'])
  assert.equal((await endpointOf(neap, place)).current_state, 'idle')
  assert.equal(await show('work_mem'), '11MB')
})

test('a change to the current or to an empty value has no effect', async () => {
  const { branch_id } = await endpointOf(neap, place)
  await change({ branch_id, provisioner: '', pooler_mode: '', suspend_timeout_seconds: 0 }, [])
  refused(await patch({ pooler_mode: 'session' }), 422, 'NOT_ALLOWED', /transaction/)
  refused(await patch({ suspend_timeout_seconds: 5 }), 422, 'SUSPEND_TIMEOUT_NOT_SUPPORTED', /60 to 604800/)
  const changed = await change({ suspend_timeout_seconds: 3600, name: 'renamed', pooler_enabled: true }, [
    'apply_config',
  ])
  const now = (await http('GET', endpoint)).body['endpoint'] as Record<string, unknown>
  assert.deepEqual(
    [now['suspend_timeout_seconds'], now['name'], now['pooler_enabled'], now['passwordless_access']],
    [3600, 'renamed', true, false],
  )
  assert.equal(changed.host, now['host'])
})

test('a restart is a suspend and a start', async () => {
  await query(neap, place.uri, 'select 1')
  const first = await startedAt()
  const restarted = (await http('POST', `${endpoint}/restart`)).body as unknown as Changed
  assert.deepEqual(
    restarted.operations.map(({ action }) => action),
    ['suspend_compute', 'start_compute'],
  )
  assert.equal(restarted.endpoint.pending_state, 'active')
  await neap.ended(restarted.operations)
  assert.notEqual(await startedAt(), first)
})

test('a disabled endpoint stops and refuses connections until it is enabled', async () => {
  await query(neap, place.uri, 'select 1')
  const stopped = await change({ disabled: true }, ['apply_config', 'suspend_compute'])
  assert.deepEqual([stopped.disabled, stopped.pending_state], [true, 'idle'])
  await assert.rejects(query(neap, place.uri, 'select 1'), /The endpoint has been disabled/)
  for (const path of ['start', 'restart'])
    refused(await http('POST', `${endpoint}/${path}`), 422, 'NOT_ALLOWED', /disabled.*Enable it/)
  const enabled = await change({ disabled: false }, ['apply_config'])
  assert.deepEqual([enabled.current_state, enabled.pending_state], ['idle', 'idle'])
  assert.deepEqual(await query(neap, place.uri, 'select 1 as one'), [{ one: 1 }])
})

test("an endpoint that moves to another branch keeps its host and serves that branch's data", async () => {
  await query(neap, place.uri, `create table where_am_i as select 'main' as branch`)
  const { branch, operations } = (await http('POST', `${project}/branches`, { body: { branch: { name: 'other' } } }))
    .body as unknown as { branch: { id: string }; operations: Changed['operations'] }
  await neap.ended(operations)
  const { host } = await endpointOf(neap, place)

  // Clients keep connecting during the move: each reaches one of the two branches, and after the answer only the other
  // one.
  let moved = false
  let stop = false
  const coming = Promise.all(
    Array.from({ length: 8 }, async () => {
      while (!stop) {
        const over = moved
        const rows = await query(neap, place.uri, 'select branch from where_am_i').catch((error: unknown) => {
          // The move terminates sessions of the old branch, possibly during login.
          const { code, message } = error as { code?: string; message: string }
          if (code !== '57P01' && !/terminated unexpectedly/.test(message)) throw error
          return undefined
        })
        if (over && rows) assert.deepEqual(rows, [{ branch: 'other' }])
      }
    }),
  )
  // Marks the other branch's data through a temporary endpoint, which is then deleted.
  const params = { project_id: place.project_id }
  const own = await neap.call('POST /projects/:project_id/endpoints', {
    params,
    body: { endpoint: { branch_id: branch.id, type: 'read_write' } },
  })
  await neap.ended(own.operations)
  const uri = place.uri.replace(place.endpoint_id, own.endpoint.id)
  await query(neap, uri, `update where_am_i set branch = 'other'`)
  refused(await patch({ branch_id: branch.id }), 409, 'ENDPOINTS_LIMIT_EXCEEDED', /already exists/)
  await http('DELETE', `${project}/endpoints/${own.endpoint.id}`)

  const answer = (await patch({ branch_id: branch.id })).body as unknown as Changed
  assert.deepEqual(
    answer.operations.map((each) => [each.action, each.branch_id]),
    [
      ['apply_config', branch.id],
      ['suspend_compute', place.branch_id],
    ],
  )
  assert.deepEqual(
    [answer.endpoint.branch_id, answer.endpoint.host, answer.endpoint.pending_state],
    [branch.id, host, 'idle'],
  )
  await neap.ended(answer.operations)
  moved = true
  assert.deepEqual(await query(neap, place.uri, 'select branch from where_am_i'), [{ branch: 'other' }])
  stop = true
  await coming
  refused(await patch({ branch_id: 'br-none' }), 404, 'NOT_FOUND', /br-none/)
  // The old branch can have another endpoint now.
  const back = await http('POST', `${project}/endpoints`, {
    body: { endpoint: { branch_id: place.branch_id, type: 'read_write' } },
  })
  assert.equal(back.status, 201)
  await neap.ended((back.body as unknown as Changed).operations)
})

test('a branch has at most one endpoint, of the type read_write', async () => {
  const create = (asked: object) => http('POST', `${project}/endpoints`, { body: { endpoint: asked } })
  refused(
    await create({ branch_id: place.branch_id, type: 'read_write' }),
    409,
    'ENDPOINTS_LIMIT_EXCEEDED',
    /read_write endpoint already exists/,
  )
  refused(
    await create({ branch_id: place.branch_id, type: 'read_only' }),
    422,
    'ENDPOINT_TYPE_NOT_SUPPORTED',
    /read_write/,
  )
  refused(await create({ branch_id: place.branch_id }), 400, 'INVALID_REQUEST', /type/)
  const child = await branchOff(neap, place)
  const list = (await http('GET', `${project}/endpoints`)).body['endpoints'] as Record<string, unknown>[]
  for (const each of list)
    assert.deepEqual(['pending_state' in each, 'last_active' in each], [false, true], String(each['id']))
  const deletion = (await http('DELETE', `${project}/endpoints/${child.endpoint_id}`)).body as unknown as Changed
  assert.deepEqual([deletion.operations, 'pending_state' in deletion.endpoint], [[], false])
  refused(await http('DELETE', `${project}/endpoints/${child.endpoint_id}`), 404, 'NOT_FOUND', /not found/)
})
