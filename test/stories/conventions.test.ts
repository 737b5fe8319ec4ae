import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { openCatalog } from '../../src/catalog/catalog.ts'
import { embeddedCatalogUrl } from '../../src/catalog/embedded.ts'
import { eventsSince, snapshotNow } from '../../src/catalog/operation_event.ts'
import { loadOrCreateSecrets } from '../../src/secrets/secrets.ts'
import { catalogQuery } from '../admin.ts'
import { type Answer, refused, type Request, send } from '../http.ts'
import { envOf, leaveNothing, type Neap, newDataDir, spawnNeap, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/* Behaviour common to all routes: forms, idempotency keys, waiting, event streams, API keys. */

let neap: Neap
let place: Place
let project: string

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  project = `/projects/${place.project_id}`
})

after(() => neap?.stop())

const http = (method: string, path: string, request?: Request) => send(neap, method, path, request)
const FORM = 'application/x-www-form-urlencoded'

interface Made {
  readonly branch: { id: string; name: string; current_state: string; protected: boolean }
  readonly endpoints: { id: string; current_state: string; pending_state?: string; suspend_timeout_seconds: number }[]
  readonly operations: { id: string; project_id: string; status: string }[]
}
const made = (answer: Answer) => answer.body as unknown as Made

async function branchNames(): Promise<string[]> {
  const { branches } = (await http('GET', `${project}/branches`)).body as unknown as { branches: { name: string }[] }
  return branches.map(({ name }) => name)
}

test('a form is typed by the schema of the JSON body', async () => {
  const body =
    'branch[name]=of+a+form&branch[protected]=true' +
    '&endpoints[0][type]=read_write&endpoints[0][suspend_timeout_seconds]=120'
  const answer = await http('POST', `${project}/branches`, { body, type: FORM })
  assert.equal(answer.status, 201, answer.body.message)
  const { branch, endpoints, operations } = made(answer)
  assert.deepEqual([branch.name, branch.protected], ['of a form', true])
  assert.equal(endpoints[0]?.suspend_timeout_seconds, 120)
  await neap.ended(operations)
  const wrong = { body: 'branch[name]=x&branch[protected]=perhaps', type: FORM }
  refused(await http('POST', `${project}/branches`, wrong), 400, 'INVALID_REQUEST', /branch\.protected/)
  const deep = { body: `branch${'[a]'.repeat(20)}=x`, type: FORM }
  refused(await http('POST', `${project}/branches`, deep), 400, 'INVALID_REQUEST', /nested/)
})

test('an empty text counts as an absent field', async () => {
  const body = { branch: { name: '', parent_id: '', parent_lsn: '' }, endpoints: [] }
  const answer = await http('POST', `${project}/branches`, { body })
  assert.equal(answer.status, 201, answer.body.message)
  const { branch, operations } = made(answer)
  assert.equal(branch.name, branch.id)
  await neap.ended(operations)
})

test('a repeated request has one effect and one reply', async () => {
  const repeated = { body: { branch: { name: 'once' } }, headers: { 'idempotency-key': 'k1' } }
  const answers = await Promise.all(Array.from({ length: 20 }, () => http('POST', `${project}/branches`, repeated)))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]))
  assert.equal(new Set(answers.map(({ body }) => JSON.stringify(body))).size, 1)
  assert.equal(answers.filter(({ headers }) => headers.get('idempotency-replayed') === 'true').length, 19)
  assert.equal((await branchNames()).filter((name) => name === 'once').length, 1)

  await kill(neap.part('api'))
  const later = await until('the api is back', () =>
    http('POST', `${project}/branches`, repeated).catch(() => undefined),
  )
  assert.deepEqual(later.body, answers[0]?.body)

  const other = { ...repeated, body: { branch: { name: 'twice' } } }
  refused(await http('POST', `${project}/branches`, other), 422, 'IDEMPOTENCY_KEY_REUSED', /Idempotency-Key/)
  assert.ok(!(await branchNames()).includes('twice'))
  // An idempotency key is scoped to one route.
  const elsewhere = await http('POST', '/api_keys', { body: { key_name: 'k' }, headers: { 'idempotency-key': 'k1' } })
  assert.equal(elsewhere.status, 200)
  await neap.ended(made(later).operations)
})

test('a refusal is replayed too, and a temporary one is not stored', async () => {
  const taken = { body: { branch: { name: 'once' } }, headers: { 'idempotency-key': 'k2' } }
  const first = await http('POST', `${project}/branches`, taken)
  refused(first, 409, 'BRANCH_ALREADY_EXISTS', /once/)
  const again = await http('POST', `${project}/branches`, taken)
  assert.deepEqual([again.status, again.body], [409, first.body])
  const invalid = { body: { branch: { name: 7 } }, headers: { 'idempotency-key': 'k3' } }
  const bad = await http('POST', `${project}/branches`, invalid)
  refused(bad, 400, 'INVALID_REQUEST', /branch\.name/)
  assert.deepEqual((await http('POST', `${project}/branches`, invalid)).body, bad.body)
})

test('the stored reply is encrypted', async () => {
  const body = { role: { name: 'kept' } }
  const path = `${project}/branches/${place.branch_id}/roles`
  const answer = await http('POST', path, { body, headers: { 'idempotency-key': 'k4' } })
  const { role } = answer.body as unknown as { role: { password: string } }
  const again = await http('POST', path, { body, headers: { 'idempotency-key': 'k4' } })
  assert.deepEqual(again.body, answer.body)
  const [row] = await catalogQuery<{ reply: Buffer }>(neap, `select reply from idempotency_key where key = 'k4'`)
  assert.ok(row && !row.reply.toString('latin1').includes(role.password))
})

test('a request with Prefer: wait is answered after its operations have finished', async () => {
  const body = { branch: { name: 'awaited' }, endpoints: [{ type: 'read_write' }] }
  const answer = await http('POST', `${project}/branches`, { body, headers: { prefer: 'wait=60' } })
  assert.equal(answer.headers.get('preference-applied'), 'wait=60')
  const { branch, endpoints, operations } = made(answer)
  assert.deepEqual(
    operations.map(({ status }) => status),
    ['finished', 'finished'],
  )
  assert.equal(branch.current_state, 'ready')
  assert.deepEqual([endpoints[0]?.current_state, endpoints[0]?.pending_state], ['active', undefined])

  const restarted = await http('POST', `${project}/endpoints/${endpoints[0]?.id}/restart`)
  const last = made(restarted).operations.at(-1)
  const waited = await http('GET', `${project}/operations/${last?.id}`, {
    headers: { prefer: 'respond-async, wait=900' },
  })
  assert.equal(waited.headers.get('preference-applied'), 'wait=300')
  assert.equal((waited.body['operation'] as { status: string }).status, 'finished')
})

interface Event {
  /** The id to resume from; of events that were sent together, only one has it. */
  readonly id: string | undefined
  readonly operation: { id: string; status: string; action: string; updated_at: string }
}

/** Reads events until `enough` returns true or the stream ends. */
async function events(enough: (events: Event[]) => boolean, request: Request = {}): Promise<Event[]> {
  const stop = new AbortController()
  const response = await fetch(`${neap.ready.api_url}${project}/operations/stream`, {
    headers: { authorization: `Bearer ${request.key ?? neap.ready.api_key}`, ...request.headers },
    signal: stop.signal,
  })
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  const found: Event[] = []
  let text = ''
  const decoder = new TextDecoder()
  for await (const part of response.body ?? []) {
    text += decoder.decode(part as Uint8Array, { stream: true })
    const messages = text.split('\n\n')
    text = messages.pop() ?? ''
    for (const message of messages) {
      const data = /^data: (.*)$/m.exec(message)?.[1]
      if (data !== undefined)
        found.push({ id: /^id: (.*)$/m.exec(message)?.[1], ...(JSON.parse(data) as Pick<Event, 'operation'>) })
    }
    if (enough(found)) break
  }
  stop.abort()
  return found
}

const changes = (found: Event[]) => found.map(({ operation }) => [operation.id, operation.status, operation.updated_at])

test('a stream of operations has each change, and resumes from any event', async () => {
  const begin = { headers: { 'last-event-id': '0' } }
  const ends = (id: string) => (found: Event[]) =>
    found.some(({ id: placed, operation }) => placed && operation.id === id && operation.status === 'finished')
  let restarting: Made['operations'] = []
  const following = events((found) => restarting.length > 0 && ends(restarting.at(-1)?.id ?? '')(found), begin)
  restarting = made(await http('POST', `${project}/endpoints/${place.endpoint_id}/restart`)).operations
  const last = restarting.at(-1)?.id ?? ''
  const live = await following
  for (const { id } of restarting)
    assert.deepEqual(
      live.filter(({ operation }) => operation.id === id).map(({ operation }) => operation.status),
      ['scheduling', 'running', 'finished'],
    )
  // A replay from the beginning yields the same events; from any id, exactly the later ones.
  const all = await events(ends(last), begin)
  assert.deepEqual(changes(all), changes(live))
  for (const [index, { id }] of live.entries()) {
    if (id === undefined || index === live.length - 1) continue
    const rest = await events(ends(last), { headers: { 'last-event-id': id } })
    assert.deepEqual(changes(rest), changes(live.slice(index + 1)))
  }
  // A client with an expired id, or an id of another catalog, gets a reset event.
  for (const lost of ['1500000000-9:9:', `${Math.floor(Date.now() / 1000)}-9:9999999999999999999:`]) {
    const response = await fetch(`${neap.ready.api_url}${project}/operations/stream`, {
      headers: { authorization: `Bearer ${neap.ready.api_key}`, 'last-event-id': lost },
    })
    const reader = response.body?.getReader()
    const read = (await reader?.read()) as { value?: Uint8Array } | undefined
    assert.match(new TextDecoder().decode(read?.value), /^event: reset$/m)
    await reader?.cancel()
  }
  for (const wrong of ['x', '1', '1-2', '1-2:3', `${'9'.repeat(30)}-1:1:`, '1-5:3:'])
    refused(
      await http('GET', `${project}/operations/stream`, { headers: { 'last-event-id': wrong } }),
      400,
      'INVALID_REQUEST',
      /Last-Event-ID|out of range/,
    )
})

test('a stream resumes over many events in pages of one snapshot', async () => {
  const MANY = 2_500
  const secrets = await loadOrCreateSecrets(join(neap.ready.data_dir, 'secret.key'))
  const url = embeddedCatalogUrl(join(neap.ready.data_dir, 'run'), secrets.catalogPasswords()[0])
  const catalog = openCatalog(url, 1, () => {})
  const insert = (many: number) =>
    catalogQuery(
      neap,
      `insert into operation_event (project_id, operation_id, status, failures_count, updated_at)
       select project_id, id, 'running', number, now() from generate_series(1, $2) number,
              (select project_id, id from operation where project_id = $1 order by seq limit 1) o`,
      [place.project_id, many],
    )
  try {
    const start = await snapshotNow(catalog)
    await insert(MANY)
    const sizes: number[] = []
    const found: number[] = []
    let seen: string | undefined
    for await (const page of eventsSince(catalog, place.project_id, start)) {
      // Events inserted meanwhile belong to the next call.
      if (found.length === 0) await insert(1)
      assert.equal(seen, undefined)
      sizes.push(page.events.length)
      found.push(...page.events.map(({ failures_count }) => failures_count))
      seen = page.seen
    }
    assert.deepEqual(sizes, [1000, 1000, 500])
    assert.deepEqual(
      found,
      [...Array(MANY).keys()].map((number) => number + 1),
    )
    for await (const rest of eventsSince(catalog, place.project_id, seen ?? ''))
      assert.deepEqual([rest.events.length, rest.seen === undefined], [1, false])

    const all = await events((heard) => heard.at(-1)?.id !== undefined, { headers: { 'last-event-id': '0' } })
    assert.ok(all.length > MANY)
    assert.equal(all.filter(({ id }) => id !== undefined).length, 1)
  } finally {
    await catalog.close()
  }
})

/** The port of a part that was started by hand, from its log. */
async function portOf(part: ChildProcess): Promise<number> {
  for await (const line of createInterface({ input: part.stderr as NonNullable<typeof part.stderr> })) {
    const port = /^\{.*"port":(\d+).*"msg":"ready"/.exec(line)?.[1]
    if (port !== undefined) return Number(port)
  }
  throw new Error('the part ended before it was ready')
}

test('a revoked key stops working at once on every api process, and its streams end', async () => {
  const dataDir = newDataDir()
  const secretFile = join(neap.ready.data_dir, 'secret.key')
  const secrets = await loadOrCreateSecrets(secretFile)
  const second = spawnNeap(['api', '--api-port', '0'], {
    ...envOf(dataDir),
    NEAP_SECRET_FILE: secretFile,
    NEAP_CATALOG_URL: embeddedCatalogUrl(join(neap.ready.data_dir, 'run'), secrets.catalogPasswords()[0]),
  })
  try {
    const url = `http://127.0.0.1:${await portOf(second)}/api/v2`
    const { id, key } = (await http('POST', '/api_keys', { body: { key_name: 'short' } })).body as unknown as {
      id: number
      key: string
    }
    for (const where of [url, neap.ready.api_url])
      assert.equal((await http('GET', project, { key, url: where })).status, 200)
    const following = events(() => false, { key })
    assert.equal((await http('DELETE', `/api_keys/${id}`)).status, 200)
    refused(await http('GET', project, { key }), 401, 'UNAUTHENTICATED', /revoked/)
    refused(await http('GET', project, { key, url }), 401, 'UNAUTHENTICATED', /revoked/)
    // Later events are not sent to it.
    await neap.ended(made(await http('POST', `${project}/endpoints/${place.endpoint_id}/restart`)).operations)
    assert.deepEqual(await following, [])
  } finally {
    second.kill('SIGTERM')
    await once(second, 'exit')
    await leaveNothing(dataDir)
  }
})

test('a key can be limited to a project and to a time', async () => {
  const other = (await http('POST', '/projects', { body: { project: { name: 'other' } } })).body as unknown as {
    project: { id: string }
    operations: Made['operations']
  }
  const body = { key_name: 'narrow', project_id: place.project_id, scope: 'write' }
  const { key } = (await http('POST', '/api_keys', { body })).body as unknown as { key: string }
  assert.equal((await http('GET', project, { key })).status, 200)
  refused(await http('GET', `/projects/${other.project.id}`, { key }), 404, 'NOT_FOUND', /not found/)
  const { projects } = (await http('GET', '/projects', { key })).body as unknown as { projects: { id: string }[] }
  assert.deepEqual(
    projects.map(({ id }) => id),
    [place.project_id],
  )
  refused(await http('POST', '/projects', { key, body: { project: {} } }), 403, 'FORBIDDEN', /one project|only/)
  refused(
    await http('POST', '/api_keys', { body: { key_name: 'late', expires_at: '2020-01-01T00:00:00Z' } }),
    422,
    'NOT_ALLOWED',
    /over already/,
  )
  const expires_at = new Date(Date.now() + 1500).toISOString()
  const brief = (await http('POST', '/api_keys', { body: { key_name: 'brief', expires_at } })).body
  assert.equal((await http('GET', project, { key: brief.key ?? '' })).status, 200)
  await until('the key expires', async () => (await http('GET', project, { key: brief.key ?? '' })).status === 401)
  assert.ok(Date.now() >= Date.parse(expires_at))
  await neap.ended(other.operations)
})

test('operations are filtered, page by page', async () => {
  const all = (await http('GET', `${project}/operations?limit=1000`)).body as unknown as {
    operations: { id: string; action: string; status: string; branch_id?: string; endpoint_id?: string }[]
  }
  const filters: [string, (operation: (typeof all.operations)[number]) => boolean][] = [
    [`endpoint_id=${place.endpoint_id}`, (each) => each.endpoint_id === place.endpoint_id],
    [`branch_id=${place.branch_id}`, (each) => each.branch_id === place.branch_id],
    ['action=create_branch', (each) => each.action === 'create_branch'],
    ['status=finished', (each) => each.status === 'finished'],
    ['status=failed', (each) => each.status === 'failed'],
    ['status=running', (each) => each.status === 'running'],
    [
      `branch_id=${place.branch_id}&action=start_compute`,
      (each) => each.branch_id === place.branch_id && each.action === 'start_compute',
    ],
  ]
  for (const [filter, matches] of filters) {
    const found: string[] = []
    for (let cursor: string | undefined = ''; cursor !== undefined;) {
      const path = `${project}/operations?limit=2&${filter}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`
      const { operations, pagination } = (await http('GET', path)).body as unknown as {
        operations: { id: string }[]
        pagination?: { cursor: string }
      }
      found.push(...operations.map(({ id }) => id))
      cursor = pagination?.cursor
    }
    assert.deepEqual(
      found,
      all.operations.filter(matches).map(({ id }) => id),
      filter,
    )
  }
  refused(await http('GET', `${project}/operations?status=lost`), 400, 'INVALID_REQUEST', /status/)
})

test('the OpenAPI document and its HTML page are served', async () => {
  const document = (await http('GET', '/openapi.json')).body as unknown as { openapi: string; paths: object }
  assert.equal(document.openapi, '3.1.0')
  assert.ok(Object.keys(document.paths).length > 30)
  const page = await fetch(neap.ready.api_url.replace('/api/v2', '/docs'))
  assert.equal(page.status, 200)
  assert.match(page.headers.get('content-security-policy') ?? '', /^default-src 'none'/)
  const html = await page.text()
  for (const path of Object.keys(document.paths)) assert.ok(html.includes(`<code>${path}</code>`), path)
  assert.doesNotMatch(html, /<script|on\w+=|https?:\/\//)
})
