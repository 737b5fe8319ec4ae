import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { loadOrCreateSecrets } from '../../src/secrets/secrets.ts'
import { catalogQuery } from '../admin.ts'
import { connect, query } from '../clients.ts'
import { send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { processesOf, until } from '../processes.ts'
import { firstPlace, type Place, suspend } from '../project.ts'

/* Metrics, readiness and logs of a Neap after real work; the dashboard and the documents agree with them. */

const DOCS = join(import.meta.dirname, '..', '..', 'docs')
const PARTS = ['api', 'worker', 'proxy'] as const
type PartName = (typeof PARTS)[number]

let neap: Neap
let place: Place
let ports: Record<PartName, number>
let apiPort: number

before(async () => {
  neap = await startNeap({
    env: {
      NEAP_LOG_LEVEL: 'debug',
      NEAP_API_METRICS_PORT: '0',
      NEAP_WORKER_METRICS_PORT: '0',
      NEAP_PROXY_METRICS_PORT: '0',
      NEAP_PROXIES: '1',
    },
  })
  place = await firstPlace(neap)
  const { stdout } = await neapRun(['status', '--json'], envOf(neap.ready.data_dir))
  const status = JSON.parse(stdout) as Record<`${'api_' | 'worker_' | 'proxy_'}metrics_port` | 'api_port', number>
  ports = { api: status.api_metrics_port, worker: status.worker_metrics_port, proxy: status.proxy_metrics_port }
  apiPort = status.api_port
})

after(() => neap?.stop())

const at = (part: PartName, path: string) => `http://127.0.0.1:${ports[part]}${path}`

async function scrape(part: PartName): Promise<string> {
  const response = await fetch(at(part, '/metrics'))
  assert.equal(response.status, 200)
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
  return response.text()
}

/** The value of the only series of a metric with these labels. Returns undefined when there is no such series. */
function valueOf(text: string, name: string, labels: Record<string, string> = {}): number | undefined {
  const found = text.split('\n').filter((line) => {
    const [series = ''] = line.split(' ')
    return (
      (series === name || series.startsWith(`${name}{`)) &&
      Object.entries(labels).every(([label, value]) => series.includes(`${label}="${value}"`))
    )
  })
  assert.ok(found.length <= 1, `${name} ${JSON.stringify(labels)} is ${found.length} series`)
  return found[0] === undefined ? undefined : Number(found[0].split(' ').at(-1))
}

/** The metric names of a scrape, from its `# TYPE` lines. */
const namesIn = (text: string): Set<string> =>
  new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name ?? ''))

const logOf = (part: PartName): string => readFileSync(join(neap.ready.data_dir, 'parts', `${part}.log`), 'utf8')

interface Line {
  readonly part: PartName
  readonly msg: string
  readonly request_id?: string
  readonly operation?: string
  readonly [more: string]: unknown
}

const linesOf = (part: PartName): Line[] =>
  logOf(part)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)

test('each process reports liveness and readiness without a key', async () => {
  for (const part of PARTS) {
    for (const [path, status] of [
      ['/healthz', 'ok'],
      ['/readyz', 'ready'],
    ] as const) {
      const response = await fetch(at(part, path))
      assert.equal(response.status, 200, path)
      assert.deepEqual(await response.json(), { status, part })
    }
  }
  for (const path of ['/healthz', '/readyz'])
    assert.equal((await fetch(`http://127.0.0.1:${apiPort}${path}`)).status, 200)
  assert.equal((await fetch(at('worker', '/'))).status, 404)
  assert.equal((await fetch(at('proxy', '/metrics'), { method: 'POST' })).status, 404)
})

test('the disk, the bytes of branches and the memory of computes are known', async () => {
  const branchBytes = async () => valueOf(await scrape('api'), 'neap_host_branch_bytes')
  const sumOfStores = async () => {
    const [row] = await catalogQuery<{ bytes: number }>(
      neap,
      'select sum(bytes)::float8 as bytes from store having bool_and(bytes is not null)',
    )
    return row?.bytes
  }
  const counted = () =>
    until('the bytes of branches', async () => {
      const bytes = await branchBytes()
      return bytes !== 0 && bytes === (await sumOfStores()) && bytes
    })
  const first = await counted()
  const { project_id } = place
  const made = await neap.call('POST /projects/:project_id/branches', { params: { project_id }, body: {} })
  await neap.ended(made.operations)
  assert.ok((await counted()) > first)
  const params = { project_id, branch_id: made.branch.id }
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params })
  await neap.ended(operations)
  assert.ok((await counted()) < 2 * first)
  await query(neap, place.uri, 'select 1')
  const { stdout } = await neapRun(['status'], envOf(neap.ready.data_dir))
  assert.match(
    stdout,
    /^Disk: \d+\.\d of \d+\.\d [GT]iB free; the files of branches have \d+\.\d MiB(; with templates they take \d+\.\d MiB)?\.$/m,
  )
  const [{ limits_memory } = { limits_memory: false }] = await catalogQuery<{ limits_memory: boolean }>(
    neap,
    'select limit_error is null as limits_memory from host',
  )
  const held = valueOf(await scrape('worker'), 'neap_computes_memory_bytes', { kind: 'held' })
  assert.equal((held ?? 0) > 2 ** 20, limits_memory)
})

test('operations, wakes, connections and requests are counted', async () => {
  await suspend(neap, place)
  // The API counts the catalog's rows once in a while.
  await until(
    'the idle endpoint is counted',
    async () => valueOf(await scrape('api'), 'neap_endpoints', { state: 'idle' }) === 1,
  )
  const before_wake = valueOf(await scrape('proxy'), 'neap_wake_seconds_count') ?? 0
  const client = await connect(neap, place.uri)
  await client.query('select 1')
  const during = await scrape('proxy')
  assert.equal(valueOf(during, 'neap_proxy_sessions'), 1)
  assert.equal(valueOf(during, 'neap_wake_seconds_count'), before_wake + 1)
  assert.ok((valueOf(during, 'neap_wakes_total', { outcome: 'ready' }) ?? 0) >= 1)
  await client.end()
  await assert.rejects(connect(neap, place.uri.replace(place.endpoint_id, 'ep-no-such-00000000')))
  await until('the connections have ended', async () => valueOf(await scrape('proxy'), 'neap_proxy_connections') === 0)
  assert.equal(valueOf(await scrape('proxy'), 'neap_proxy_refused_total', { reason: 'wrong_password' }), 1)

  const worker = await until('the start is counted', async () => {
    const text = await scrape('worker')
    const started = valueOf(text, 'neap_operation_duration_seconds_count', {
      action: 'start_compute',
      status: 'finished',
    })
    return (started ?? 0) >= 2 && text
  })
  const suspended = { action: 'suspend_compute', status: 'finished', code: '' }
  assert.equal(valueOf(worker, 'neap_operations_total', suspended), 1)
  // The series exists before any has failed, so that the first failure is an increase.
  assert.equal(
    valueOf(worker, 'neap_operation_duration_seconds_count', { action: 'create_branch', status: 'failed' }),
    0,
  )

  await until('the endpoint is counted as active', async () => {
    const api = await scrape('api')
    return (
      valueOf(api, 'neap_endpoints', { state: 'active' }) === 1 &&
      valueOf(api, 'neap_endpoints', { state: 'idle' }) === 0
    )
  })
  await send(neap, 'GET', `/projects/${place.project_id}?include=secret-word`)
  assert.equal((await send(neap, 'GET', '/no/such/place')).status, 404)
  const api = await scrape('api')
  const route = '/api/v2/projects/:project_id'
  assert.ok((valueOf(api, 'neap_http_requests_total', { method: 'GET', route, status: '200' }) ?? 0) >= 1)
  assert.equal(valueOf(api, 'neap_http_requests_total', { route: 'none', status: '404' }), 1)
  assert.equal(valueOf(api, 'neap_operation_queue_age_seconds'), 0)
})

test('a failed operation is counted by the kind of its error, and so is the wake that it failed', async () => {
  await suspend(neap, place)
  const [project] = await catalogQuery<{ pg_version: number }>(neap, 'select pg_version from project')
  await catalogQuery(neap, 'update project set pg_version = 99')
  await assert.rejects(connect(neap, place.uri), { code: '08001' })
  await catalogQuery(neap, 'update project set pg_version = $1', [project?.pg_version])
  const failed = { action: 'start_compute', status: 'failed' }
  const worker = await until('the failure is counted', async () => {
    const text = await scrape('worker')
    return valueOf(text, 'neap_operations_total', failed) === 1 && text
  })
  assert.equal(valueOf(worker, 'neap_operations_total', { ...failed, code: 'UsageError' }), 1)
  assert.equal(valueOf(worker, 'neap_operation_duration_seconds_count', failed), 1)
  assert.ok((valueOf(worker, 'neap_operation_step_failures_total', { action: 'start_compute' }) ?? 0) >= 1)
  assert.equal(valueOf(await scrape('proxy'), 'neap_wakes_total', { outcome: 'start_failed' }), 1)
})

test('no label contains an id of a tenant', async () => {
  const texts = await Promise.all(PARTS.map(scrape))
  const { account } = (await catalogQuery(neap, 'select id as account from account'))[0] as { account: string }
  for (const text of texts)
    for (const id of [place.project_id, place.branch_id, place.endpoint_id, account]) assert.ok(!text.includes(id), id)
})

test('the log of the worker has the id of the request', async () => {
  const path = `/projects/${place.project_id}/endpoints/${place.endpoint_id}/restart`
  await query(neap, place.uri, 'select 1')
  const answer = await send(neap, 'POST', path, { headers: { prefer: 'wait=30' } })
  assert.equal(answer.status, 200)
  const requestId = answer.headers.get('x-request-id')
  const operations = answer.body['operations'] as { id: string; action: string }[]
  const request = await until('the line of the request', () =>
    linesOf('api').find((line) => line.request_id === requestId),
  )
  assert.equal(request.msg, 'request')
  assert.equal(request['route'], '/api/v2/projects/:project_id/endpoints/:endpoint_id/restart')
  assert.equal(request['project'], place.project_id)
  assert.deepEqual(
    request['operations'],
    operations.map(({ id, action }) => ({ id, action })),
  )
  for (const { id, action } of operations) {
    const end = await until(`the end of ${action} in the log`, () =>
      linesOf('worker').find((line) => line.operation === id && line.msg === 'an operation ended'),
    )
    assert.deepEqual(
      [end.request_id, end['action'], end['status'], end['project']],
      [requestId, action, 'finished', place.project_id],
    )
    const steps = linesOf('worker').filter((line) => line.operation === id && line.msg === 'step')
    assert.ok(steps.length > 0 && steps.every((line) => line.request_id === requestId && line['step']))
  }
})

interface Panel {
  readonly type: string
  readonly title: string
  readonly datasource?: { readonly uid: string }
  readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[]
}

/** Metrics that are deliberately on no panel. */
const OFF_THE_DASHBOARD: readonly string[] = []

/**
 * The metrics in a PromQL expression: names of ours and of Node's; the series of a histogram count as that histogram.
 */
function metricsOf(expression: string): string[] {
  const names = expression.match(/\b(?:neap|process|nodejs)_[a-z0-9_]+/g) ?? []
  return names.map((name) => name.replace(/_(?:bucket|sum|count)$/, ''))
}

test('the dashboard queries exported metrics only, and shows all of them', async () => {
  const text = readFileSync(join(DOCS, 'grafana', 'neap.json'), 'utf8')
  const dashboard = JSON.parse(text) as { panels: Panel[]; templating: { list: { name: string; type: string }[] } }
  const exported = new Set<string>()
  for (const part of PARTS) for (const name of namesIn(await scrape(part))) exported.add(name)
  const shown = dashboard.panels.flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => metricsOf(expr)))
  assert.ok(shown.length > 20)
  assert.deepEqual(
    shown.filter((name) => !exported.has(name)),
    [],
    'the dashboard asks for what no process exports',
  )
  const ours = [...exported].filter((name) => name.startsWith('neap_') && !OFF_THE_DASHBOARD.includes(name))
  assert.deepEqual(
    ours.filter((name) => !shown.includes(name)),
    [],
    'no panel shows these',
  )
  assert.deepEqual(
    dashboard.templating.list.map(({ name, type }) => [name, type]),
    [['datasource', 'datasource']],
  )
  for (const { type, title, datasource, targets = [] } of dashboard.panels) {
    if (type === 'row') continue
    assert.ok(targets.length > 0, title)
    for (const { uid } of [datasource ?? { uid: '' }, ...targets.map((target) => target.datasource)])
      assert.match(uid, /^\$\{datasource\}$/, title)
  }
})

test('the document lists every metric with its parts and labels, and alerts on existing ones', async () => {
  const text = readFileSync(join(DOCS, 'observability.md'), 'utf8')
  const listed = new Map(
    [...text.matchAll(/^\| `(neap_\w+)` \| (\w+) \|(.*?)\|/gm)].map(([, name = '', part = '', labels = '']) => [
      name,
      `${part}: ${labels.match(/\w+/g)?.sort().join(' ') ?? ''}`,
    ]),
  )
  const exported = new Map<string, { parts: string[]; labels: Set<string> }>()
  for (const part of PARTS) {
    const scraped = await scrape(part)
    for (const name of namesIn(scraped)) {
      if (!name.startsWith('neap_')) continue
      const known = exported.get(name) ?? { parts: [], labels: new Set() }
      exported.set(name, { ...known, parts: [...known.parts, part] })
      for (const [, labels = ''] of scraped.matchAll(new RegExp(`^${name}(?:_bucket)?\\{(.*?)\\} `, 'gm')))
        for (const [, label = ''] of labels.matchAll(/(\w+)="/g))
          if (!/^(part|le)$/.test(label)) known.labels.add(label)
    }
  }
  const real = [...exported].map(([name, { parts, labels }]) => [
    name,
    `${parts.length === PARTS.length ? 'all' : parts.join(' ')}: ${[...labels].sort().join(' ')}`,
  ])
  assert.deepEqual(Object.fromEntries(listed), Object.fromEntries(real))
  const alerts = [...text.matchAll(/^ +expr: (.+)$/gm)].flatMap(([, expr = '']) => metricsOf(expr))
  assert.ok(alerts.length > 5)
  for (const name of alerts) assert.ok(exported.has(name), `${name}, which an alert is about, is not exported`)
})

test('a process without the catalog is alive and not ready, and exports its own metrics', async () => {
  const { data_dir } = neap.ready
  const catalog = processesOf(data_dir).filter(({ directory }) => directory.startsWith(join(data_dir, 'catalog')))
  assert.ok(catalog.length > 1)
  for (const { pid } of catalog) process.kill(pid, 'SIGSTOP')
  try {
    for (const part of PARTS) {
      const response = await fetch(at(part, '/readyz'), { signal: AbortSignal.timeout(20_000) })
      assert.equal(response.status, 503)
      const said = (await response.json()) as { status: string; missing: Record<string, string> }
      assert.equal(said.status, 'not ready')
      assert.match(said.missing['catalog'] ?? '', /no answer within|cannot be reached/)
      assert.equal((await fetch(at(part, '/healthz'))).status, 200)
      const text = await scrape(part)
      assert.equal(valueOf(text, 'neap_ready'), 0)
      assert.equal(valueOf(text, 'neap_endpoints', { state: 'active' }), undefined, 'what is not known is not shown')
    }
  } finally {
    for (const { pid } of catalog) process.kill(pid, 'SIGCONT')
  }
  for (const part of PARTS)
    await until(`${part} is ready again`, async () => (await fetch(at(part, '/readyz'))).status === 200)
  await until('endpoints are shown again', async () =>
    valueOf(await scrape('api'), 'neap_endpoints', { state: 'active' }),
  )
})

test('no log contains a key, a password or a connection string', async () => {
  const branch = `/projects/${place.project_id}/branches/${place.branch_id}`
  const role = await send(neap, 'POST', `${branch}/roles`, {
    body: { role: { name: 'alice' } },
    headers: { prefer: 'wait=30' },
  })
  const reset = await send(neap, 'POST', `${branch}/roles/alice/reset_password`, { headers: { prefer: 'wait=30' } })
  const key = await send(neap, 'POST', '/api_keys', { body: { key_name: 'another' } })
  await send(neap, 'GET', `/projects/${place.project_id}/connection_uri?database_name=neondb&role_name=alice`)
  await send(neap, 'GET', '/projects?search=secret-word', { key: 'neap_not_a_key_at_all_0123456789' })
  await assert.rejects(connect(neap, place.uri.replace(/:[^:@/]+@/, ':a-wrong-password@')))
  // Errors of Neap's own statements are logged as well.
  await catalogQuery(neap, 'alter table role add constraint nobody check (name <> $$bob$$)')
  const bob = await send(neap, 'POST', `${branch}/roles`, { body: { role: { name: 'bob' } } })
  assert.equal(bob.status, 500)
  await catalogQuery(neap, 'alter table role drop constraint nobody')

  const passwordOf = ({ body }: { body: Record<string, unknown> }) => (body['role'] as { password: string }).password
  const secrets = await loadOrCreateSecrets(join(neap.ready.data_dir, 'secret.key'))
  const secret = {
    'the first key': neap.ready.api_key,
    'another key': key.body.key,
    'a key that is none': 'neap_not_a_key_at_all',
    "the owner's password": new URL(place.uri).password,
    "a role's password": passwordOf(role),
    'its next one': passwordOf(reset),
    "Neap's own password": secrets.catalogPasswords()[0],
    'a wrong password': 'a-wrong-password',
    'a query': 'secret-word',
    'a verifier': 'SCRAM-SHA-256$',
  }
  const logs = `${PARTS.map(logOf).join('\n')}\n${neap.stderr()}`
  assert.ok(logs.includes('violates check constraint'), 'the error is logged')
  for (const [what, text] of Object.entries(secret)) {
    assert.ok(text && text.length > 5, what)
    assert.ok(!logs.includes(text), `${what} is in a log`)
  }
  assert.doesNotMatch(logs, /postgres(ql)?:\/\/[^\s"]*:[^\s"…]+@/)
})
