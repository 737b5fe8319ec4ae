import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as dial } from 'node:net'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { connect, query } from '../clients.ts'
import { type Answer, refused, type Request, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { kill, postmastersOf, until } from '../processes.ts'
import { branchOff, firstPlace, type Place, suspend } from '../project.ts'
import { openState, type State, withoutWorker } from '../surface/state.ts'

/* The documented behaviour of endpoints and operations, sentence by sentence, where no other story covers it. */

let neap: Neap
let state: State
let place: Place
let project: string

before(async () => {
  neap = await startNeap()
  state = await openState(neap)
  place = await firstPlace(neap)
  project = `/projects/${place.project_id}`
})

after(async () => {
  await state?.close()
  await neap?.stop()
})

const http = (method: string, path: string, request?: Request) => send(neap, method, path, request)
const frozen = <T>(work: () => Promise<T>) => withoutWorker(neap, state, work)

type Fields = Record<string, unknown> & { readonly id: string; readonly action?: string; readonly status?: string }

interface Body {
  readonly branch: { id: string }
  readonly endpoint: Fields & { current_state: string; pending_state?: string }
  readonly endpoints: Fields[]
  readonly operations: (Fields & { project_id: string; action: string; status: string; created_at: string })[]
  readonly operation: Fields
  readonly pagination?: { cursor: string }
}

/** Asserts the status of an answer and returns its body. */
function body({ status, body: found }: Answer, expected = 200): Body {
  assert.equal(status, expected, found.message)
  return found as unknown as Body
}

const actions = ({ operations }: Body) => operations.map(({ action }) => action)
const states = ({ endpoint }: Body) => [endpoint.current_state, endpoint.pending_state]

/** A branch without an endpoint. */
async function bareBranch(): Promise<string> {
  const made = body(await http('POST', `${project}/branches`), 201)
  await neap.ended(made.operations)
  return made.branch.id
}

const createOn = (branch_id: string, asked: object = {}) =>
  http('POST', `${project}/endpoints`, { body: { endpoint: { branch_id, type: 'read_write', ...asked } } })
const patch = (id: string, endpoint: object) => http('PATCH', `${project}/endpoints/${id}`, { body: { endpoint } })
const size = (min: number, max: number) => ({ autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max })

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Asserts that fields exist and match: a pattern for text, otherwise the name of a type. */
function hasFields(thing: Fields, forms: Record<string, RegExp | string>): void {
  for (const [field, form] of Object.entries(forms)) {
    const value = thing[field]
    if (typeof form === 'string') assert.equal(typeof value, form, field)
    else assert.match(String(value), form, field)
  }
}

/** As `hasFields`, for an endpoint. */
function isEndpoint(thing: Fields, more: Record<string, RegExp | string> = {}): void {
  hasFields(thing, { ...ENDPOINT, ...more })
  assert.equal(typeof (thing['settings'] as Fields)['pg_settings'], 'object')
}

const ENDPOINT = {
  id: /^ep-[a-z]+-[a-z]+-[a-z0-9]{8}$/,
  host: /^ep-[a-z]+-[a-z]+-[a-z0-9]{8}\.[a-z0-9.-]+$/,
  proxy_host: /^[a-z0-9.-]+$/,
  project_id: /^[a-z]+-[a-z]+-\d{8}$/,
  branch_id: /^br-[a-z]+-[a-z]+-[a-z0-9]{8}$/,
  region_id: /^local$/,
  type: /^read_write$/,
  autoscaling_limit_min_cu: 'number',
  autoscaling_limit_max_cu: 'number',
  suspend_timeout_seconds: 'number',
  provisioner: 'string',
  creation_source: 'string',
  current_state: /^(init|active|idle)$/,
  settings: 'object',
  pooler_enabled: 'boolean',
  pooler_mode: /^transaction$/,
  disabled: 'boolean',
  passwordless_access: 'boolean',
  created_at: TIME,
  updated_at: TIME,
}

test('an endpoint has every field, pending_state after a change, and last_active after a start', async () => {
  const branch_id = await bareBranch()
  const listed = async (id: string) =>
    body(await http('GET', `${project}/endpoints`)).endpoints.find((each) => each.id === id)
  const made = await frozen(async () => {
    const created = body(await createOn(branch_id), 201)
    assert.deepEqual([states(created), actions(created)], [['init', 'active'], ['start_compute']])
    // No compute has started yet.
    for (const shown of [created.endpoint, await listed(created.endpoint.id)]) {
      assert.ok(shown && !('last_active' in shown))
      isEndpoint(shown)
    }
    assert.ok(!('pending_state' in ((await listed(created.endpoint.id)) ?? {})))
    const { endpoint } = body(await http('GET', `${project}/endpoints/${created.endpoint.id}`))
    assert.equal(endpoint.pending_state, 'active')
    isEndpoint(endpoint)
    return created
  })
  await neap.ended(made.operations)
  const { id } = made.endpoint
  const shown = await listed(id)
  assert.ok(shown && !('pending_state' in shown))
  assert.deepEqual(
    [shown['current_state'], shown['branch_id'], shown['host']],
    ['active', branch_id, made.endpoint['host']],
  )
  isEndpoint(shown, { last_active: TIME, started_at: TIME })

  const renamed = body(await patch(id, { name: 'named', passwordless_access: true }))
  assert.deepEqual([states(renamed), actions(renamed)], [['active', 'active'], ['apply_config']])
  isEndpoint(renamed.endpoint, { last_active: TIME, name: /^named$/ })
  assert.equal((await listed(id))?.['passwordless_access'], true)
  await neap.ended(renamed.operations)
  const suspended = body(await http('POST', `${project}/endpoints/${id}/suspend`))
  await neap.ended(suspended.operations)
  const again = body(await patch(id, { name: 'again' }))
  assert.deepEqual([states(again), actions(again)], [['idle', 'idle'], ['apply_config']])
  isEndpoint(again.endpoint, { last_active: TIME, suspended_at: TIME })
  await neap.ended(again.operations)

  const deleted = body(await http('DELETE', `${project}/endpoints/${id}`))
  assert.deepEqual([states(deleted), deleted.operations], [['idle', undefined], []])
  isEndpoint(deleted.endpoint, { last_active: TIME })
})

test('an operation has every field, and is polled until it has finished', async () => {
  const asked = { branch: { name: 'polled' }, endpoints: [{ type: 'read_write' }] }
  const made = body(await http('POST', `${project}/branches`, { body: asked }), 201)
  assert.deepEqual(actions(made), ['create_branch', 'start_compute'])
  for (const operation of made.operations) {
    hasFields(operation, {
      id: UUID,
      project_id: ENDPOINT.project_id,
      branch_id: ENDPOINT.branch_id,
      status: /^(scheduling|running)$/,
      failures_count: /^0$/,
      created_at: TIME,
      updated_at: TIME,
      total_duration_ms: 'number',
    })
  }
  assert.deepEqual(
    made.operations.map((operation) => operation['endpoint_id']),
    [undefined, made.endpoints[0]?.id],
  )
  const statuses = new Set<unknown>()
  for (const { id } of made.operations)
    await until(`the end of ${id}`, async () => {
      const { operation } = body(await http('GET', `${project}/operations/${id}`))
      statuses.add(operation.status)
      return operation.status === 'finished'
    })
  assert.ok([...statuses].every((status) => ['scheduling', 'running', 'finished'].includes(String(status))))
  // Creates a resource that depends on them only now.
  const databases = `${project}/branches/${made.branch.id}/databases`
  const database = { name: 'after', owner_name: 'neondb_owner' }
  await neap.ended(body(await http('POST', databases, { body: { database } }), 201).operations)
  const { operation } = body(await http('GET', `${project}/operations/${made.operations[0]?.id}`))
  assert.ok(Number(operation['total_duration_ms']) > 0 && !('error' in operation))
})

test('an operation that is cancelled before it begins fails with that reason', async () => {
  const { id } = await frozen(async () => {
    const [operation] = body(await http('POST', `${project}/branches`), 201).operations
    return body(await http('POST', `${project}/operations/${operation?.id}/cancel`)).operation
  })
  const { operation } = body(await http('GET', `${project}/operations/${id}`))
  assert.equal(operation.status, 'failed')
  hasFields(operation, { error: /^cancelled: ./, failures_count: 'number', updated_at: TIME })
  const failed = body(await http('GET', `${project}/operations?status=failed`)).operations
  assert.deepEqual(failed, [operation])
  refused(await http('POST', `${project}/operations/${id}/cancel`), 409, 'CONFLICT', /failed/)
})

test('each rule of sizes is enforced on new and existing endpoints', async () => {
  const branch_id = await bareBranch()
  const both = 'autoscaling_limit_max_cu'
  for (const [asked, code, problem] of [
    [size(0, 0), 'COMPUTE_SIZE_NOT_SUPPORTED', /0\.25 to 7/],
    [size(7.25, 7.25), 'COMPUTE_SIZE_NOT_SUPPORTED', /0\.25 to 7/],
    [size(0.3, 0.3), 'COMPUTE_SIZE_NOT_SUPPORTED', /multiple of 0\.25/],
    [size(1, 8), 'COMPUTE_SIZE_NOT_SUPPORTED', /0\.25 to 7/],
    [size(0.5, 2), 'AUTOSCALING_RANGE_NOT_SUPPORTED', /from 1 to 7/],
    [size(3, 2), 'COMPUTE_SIZE_INVERTED', /over autoscaling_limit_max_cu/],
    [{ [both]: 2 }, 'COMPUTE_SIZE_INCOMPLETE', /Give both/],
  ] as const)
    refused(await createOn(branch_id, asked), 422, code, problem)
  const plain = body(await createOn(branch_id), 201).endpoint
  assert.deepEqual([plain['autoscaling_limit_min_cu'], plain[both]], [0.25, 0.25])
  refused(await patch(plain.id, size(1, 2)), 422, 'ENDPOINT_MODE_CHANGE_NOT_SUPPORTED', /fixed size/)
  await http('DELETE', `${project}/endpoints/${plain.id}`)

  const made = body(await createOn(branch_id, size(1, 7)), 201)
  assert.deepEqual([made.endpoint['autoscaling_limit_min_cu'], made.endpoint[both]], [1, 7])
  refused(await patch(made.endpoint.id, size(2, 2)), 422, 'ENDPOINT_MODE_CHANGE_NOT_SUPPORTED', /autoscales/)
  refused(await patch(made.endpoint.id, size(0.75, 2)), 422, 'AUTOSCALING_RANGE_NOT_SUPPORTED', /from 1 to 7/)
  const changed = body(await patch(made.endpoint.id, { [both]: 3.5 }))
  assert.deepEqual([actions(changed), changed.endpoint[both]], [['apply_config'], 3.5])
  await neap.ended([...made.operations, ...changed.operations])
})

test('an endpoint is started and suspended by request; a repeated request has no effect', async () => {
  const asked = (verb: string) => http('POST', `${project}/endpoints/${place.endpoint_id}/${verb}`)
  await suspend(neap, place)
  for (const [verb, before_it, after_it, action] of [
    ['start', 'idle', 'active', 'start_compute'],
    ['suspend', 'active', 'idle', 'suspend_compute'],
  ] as const) {
    const answer = body(await asked(verb))
    assert.deepEqual([states(answer), actions(answer)], [[before_it, after_it], [action]])
    await neap.ended(answer.operations)
    const again = body(await asked(verb))
    assert.deepEqual([states(again), actions(again)], [[after_it, undefined], []])
  }
})

test('a deleted endpoint ends its sessions, refuses connections, and stops its compute', async () => {
  const child = await branchOff(neap, place)
  const lost = Promise.withResolvers<Error & { code?: string }>()
  const client = await connect(neap, child.uri, { lost: lost.resolve })
  await client.query('create table kept as select 1 as one')
  const deleted = body(await http('DELETE', `${project}/endpoints/${child.endpoint_id}`))
  assert.deepEqual([states(deleted), deleted.operations], [['active', undefined], []])
  assert.equal((await lost.promise).code, '57P01')
  await assert.rejects(query(neap, child.uri, 'select 1'), /password authentication failed/)
  for (const method of ['GET', 'DELETE'])
    refused(await http(method, `${project}/endpoints/${child.endpoint_id}`), 404, 'NOT_FOUND', /^endpoint ep-/)
  const [stopping] = body(await http('GET', `${project}/operations?endpoint_id=${child.endpoint_id}`)).operations
  assert.equal(stopping?.action, 'suspend_compute')
  await neap.ended([stopping])
  // The branch keeps its data; another endpoint with another host reaches it.
  const made = body(await createOn(child.branch_id), 201)
  assert.notEqual(made.endpoint.id, child.endpoint_id)
  const uri = child.uri.replace(child.endpoint_id, made.endpoint.id)
  assert.deepEqual(await query(neap, uri, 'select one from kept'), [{ one: 1 }])
})

test('operations are listed newest first, 100 by default', async () => {
  const page = async (asked: string) => body(await http('GET', `${project}/operations${asked}`))
  await suspend(neap, place)
  for (let change = 0; change < 110; change++)
    await neap.ended(body(await patch(place.endpoint_id, { name: `n${change}` })).operations)
  const first = await page('')
  assert.equal(first.operations.length, 100)
  const times = first.operations.map(({ created_at }) => created_at)
  assert.deepEqual(times, times.toSorted().toReversed())
  assert.equal(first.pagination?.cursor, times.at(-1))
  assert.match(first.pagination?.cursor ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
  const all = await page('?limit=1000')
  assert.ok(all.operations.length > 110)
  assert.deepEqual(all.operations.slice(0, 100), first.operations)
  const after_first = await page(`?limit=3&cursor=${encodeURIComponent(first.pagination?.cursor ?? '')}`)
  assert.deepEqual(after_first.operations, all.operations.slice(100, 103))
  const end = await page(`?cursor=${encodeURIComponent(all.pagination?.cursor ?? '')}`)
  assert.deepEqual(end, { operations: [] })
  for (const limit of ['0', '1001', '-1', 'x'])
    refused(await http('GET', `${project}/operations?limit=${limit}`), 400, 'INVALID_REQUEST', /limit/)
})

test('stored replies are kept for a day, operations of a deleted project for a week', async () => {
  const keyed = (key: string) => ({ body: { branch: { name: key } }, headers: { 'idempotency-key': key } })
  for (const key of ['old', 'young'])
    await neap.ended(body(await http('POST', `${project}/branches`, keyed(key)), 201).operations)
  const made = body(await http('POST', '/projects', { body: { project: {} } }), 201)
  const deletedId = made.operations[0]?.project_id
  await neap.ended(made.operations)
  await http('DELETE', `/projects/${deletedId}`)
  const operations = () => http('GET', `/projects/${deletedId}/operations`)
  await neap.ended(body(await operations()).operations.slice(0, 1))

  const age = async (hours: number, table: string, column: string, where: string) =>
    assert.equal(
      (
        await catalogQuery(
          neap,
          `update ${table} set ${column} = ${column} - interval '${hours} hours' where ${where} returning 1`,
        )
      ).length,
      1,
    )
  await age(23, 'idempotency_key', 'created_at', `key = 'young'`)
  await age(25, 'idempotency_key', 'created_at', `key = 'old'`)
  await age(6 * 24 + 23, 'project', 'deleted_at', `id = '${deletedId}'`)
  // The worker checks at its start.
  await kill(neap.part('worker'))
  // Without a stored reply the request is executed again; the name is taken by now.
  const again = await until('the old reply is deleted', async () => {
    const answer = await http('POST', `${project}/branches`, keyed('old'))
    return answer.status !== 201 && answer
  })
  refused(again, 409, 'BRANCH_ALREADY_EXISTS', /old/)
  const young = await http('POST', `${project}/branches`, keyed('young'))
  assert.deepEqual([young.status, young.headers.get('idempotency-replayed')], [201, 'true'])
  body(await operations())
  await age(2, 'project', 'deleted_at', `id = '${deletedId}'`)
  await kill(neap.part('worker'))
  refused(
    await until('its operations are deleted', async () => {
      const answer = await operations()
      return answer.status !== 200 && answer
    }),
    404,
    'NOT_FOUND',
    /not found/,
  )
})

/** Sends bytes that need not be valid HTTP, and parses the answer when the connection ends. */
async function sendBytes(bytes: string): Promise<Answer> {
  const { hostname, port } = new URL(neap.ready.api_url)
  const socket = dial(Number(port), hostname)
  let text = ''
  socket.setEncoding('utf8').on('data', (part: string) => (text += part))
  // The server resets the connection after its answer when it has not read all bytes.
  socket.on('error', () => {})
  socket.write(bytes)
  await once(socket, 'close')
  const [head = '', answer = ''] = text.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = new Headers(lines.map((line) => line.split(': ', 2) as [string, string]))
  return { status: Number(first.split(' ')[1]), headers, body: JSON.parse(answer) as Answer['body'] }
}

test('malformed HTTP and version 1 are refused with the error body of the API', async () => {
  const close = 'Host: x\r\nConnection: close\r\n'
  const long = 'x'.repeat(20_000)
  for (const [bytes, status, code, problem] of [
    ['NONSENSE\r\n\r\n', 400, 'INVALID_REQUEST', /no HTTP request/],
    [`GET /api/v2/projects/%zz HTTP/1.1\r\n${close}\r\n`, 400, 'INVALID_REQUEST', /%zz/],
    [`GET /api/v2/projects HTTP/1.1\r\n${close}x: ${long}\r\n\r\n`, 431, 'HEADERS_TOO_LARGE', /16 KiB/],
    [`GET /api/v2/projects/${long} HTTP/1.1\r\n${close}\r\n`, 431, 'HEADERS_TOO_LARGE', /16 KiB/],
    [
      `POST /api/v1/projects?x=1 HTTP/1.1\r\n${close}Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{`,
      410,
      'API_VERSION_GONE',
      /use \/api\/v2\/projects\?x=1$/,
    ],
  ] as const) {
    const answer = await sendBytes(bytes)
    refused(answer, status, code, problem)
    assert.equal(answer.headers.get('x-neon-ret-request-id'), answer.headers.get('x-request-id'))
  }
  for (const [method, path] of [
    ['GET', '/../v1'],
    ['POST', '/../v1/projects'],
    ['DELETE', '/../v1/projects/none'],
  ] as const)
    refused(await http(method, path, { key: null }), 410, 'API_VERSION_GONE', /use \/api\/v2/)
  refused(await http('POST', '/../v1/x', { body: 'x', type: 'text/plain' }), 410, 'API_VERSION_GONE', /\/api\/v2\/x/)
  refused(await http('GET', '/../v10/projects'), 404, 'NOT_FOUND', /There is no GET/)
})

test('without the catalog the API answers 503, and recovers', async () => {
  const { data_dir } = neap.ready
  const catalog = postmastersOf(data_dir).find(({ directory }) => directory.endsWith('/catalog/pgdata'))?.pid
  const keyed = { headers: { 'idempotency-key': 'away' } }
  await state.close()
  // The supervisor, which would restart the catalog, is frozen.
  neap.process.kill('SIGSTOP')
  try {
    await kill(catalog)
    for (const [method, path] of [
      ['GET', '/projects'],
      ['GET', project],
      ['POST', `${project}/endpoints/${place.endpoint_id}/start`],
    ] as const) {
      const answer = await http(method, path, keyed)
      refused(answer, 503, 'UNAVAILABLE', /Try again/)
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
    }
  } finally {
    neap.process.kill('SIGCONT')
  }
  await until('the catalog is back', async () => (await http('GET', project)).status === 200)
  // A missing answer is not stored for the key.
  const start = `${project}/endpoints/${place.endpoint_id}/start`
  await neap.ended(body(await http('POST', start, keyed)).operations)
})
