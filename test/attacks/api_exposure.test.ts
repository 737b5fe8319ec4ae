import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { refused, send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { postmastersOf, until } from '../processes.ts'
import { firstPlace } from '../project.ts'

/* The information on the API port without a key, and the keys that a key can create. */

let neap: Neap
const origin = () => new URL(neap.ready.api_url).origin

before(async () => {
  neap = await startNeap()
})

after(() => neap?.stop())

test('the API port serves no metrics, with or without a key; the metrics port serves only metrics', async () => {
  for (const headers of [{}, { authorization: `Bearer ${neap.ready.api_key}` }]) {
    const answer = await fetch(`${origin()}/metrics`, { headers })
    assert.equal(answer.status, 404)
    assert.doesNotMatch(await answer.text(), /neap_/)
  }
  const { stdout } = await neapRun(['status', '--json'], envOf(neap.ready.data_dir))
  const port = (JSON.parse(stdout) as { api_metrics_port: number }).api_metrics_port
  const metrics = await fetch(`http://127.0.0.1:${port}/metrics`)
  assert.match(await metrics.text(), /^neap_endpoints\{/m)
  for (const path of ['/api/v2/projects', '/docs', '/'])
    assert.equal((await fetch(`http://127.0.0.1:${port}${path}`)).status, 404)
})

test('an API key has the scope write by default, and such a key creates no other key', async () => {
  const made = await send(neap, 'POST', '/api_keys', { body: { key_name: 'plain' } })
  assert.deepEqual([made.status, made.body['scope']], [200, 'write'])
  const key = made.body.key ?? ''
  const mine = { key, body: { key_name: 'more' } }
  for (const scope of ['read', 'write', 'admin'])
    refused(
      await send(neap, 'POST', '/api_keys', { key, body: { ...mine.body, scope } }),
      403,
      'FORBIDDEN',
      /has the scope write; this needs admin/,
    )
  refused(await send(neap, 'POST', '/api_keys', mine), 403, 'FORBIDDEN', /scope write/)
  refused(await send(neap, 'GET', '/audit', { key }), 403, 'FORBIDDEN', /scope write/)
  const { stdout } = await neapRun(['keys', 'create', 'cli', '--json'], envOf(neap.ready.data_dir))
  assert.equal((JSON.parse(stdout) as { scope: string }).scope, 'write')
  const first = (await send(neap, 'GET', '/api_keys')).body as unknown as { name: string; scope: string }[]
  assert.equal(first.find(({ name }) => name === 'first')?.scope, 'admin')
})

test('a key of one project creates no other key, whatever its scope', async () => {
  const { project_id } = await firstPlace(neap)
  const only = { key_name: 'only', scope: 'admin', project_id }
  const { key = '' } = (await send(neap, 'POST', '/api_keys', { body: only })).body
  for (const body of [only, { key_name: 'all', scope: 'admin' }, { key_name: 'all' }])
    refused(await send(neap, 'POST', '/api_keys', { key, body }), 403, 'FORBIDDEN', /for the project .+ only/)
})

const REASONS = [
  'The catalog cannot be reached. Try again shortly.',
  'the connection by which the catalog tells of changes is lost',
  'no answer within 2000 ms',
]

test('probes answer without a key, and their reasons name no detail of this machine', async () => {
  assert.deepEqual(await (await fetch(`${origin()}/healthz`)).json(), { status: 'ok', part: 'api' })
  assert.deepEqual(await (await fetch(`${origin()}/readyz`)).json(), { status: 'ready', part: 'api' })
  const catalog = await until('a catalog', () =>
    postmastersOf(neap.ready.data_dir).find(({ directory }) => directory.endsWith('/catalog/pgdata')),
  )
  process.kill(catalog.pid, 'SIGKILL')
  const said: string[] = []
  await until('a probe while the catalog is away', async () => {
    const answer = await fetch(`${origin()}/readyz`)
    if (answer.status !== 503) return false
    said.push(await answer.text())
    return true
  })
  await until('the catalog is back', async () => (await fetch(`${origin()}/readyz`)).status === 200)
  for (const text of said) {
    const { missing } = JSON.parse(text) as { missing: Record<string, string> }
    for (const why of Object.values(missing)) assert.ok(REASONS.includes(why), why)
    assert.ok(!text.includes(neap.ready.data_dir) && !/[0-9]{4,}(?! ms)/.test(text), text)
  }
})
