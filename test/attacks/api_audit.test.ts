import assert from 'node:assert/strict'
import { request } from 'node:http'
import { after, before, test } from 'node:test'
import { join } from 'node:path'
import { openCatalog } from '../../src/catalog/catalog.ts'
import { embeddedCatalogUrl } from '../../src/catalog/embedded.ts'
import { startRefusalWriter } from '../../src/catalog/refusal_writer.ts'
import { addRefusals, MAX_RECORDS } from '../../src/catalog/refused_access.ts'
import { catalogQuery } from '../admin.ts'
import { connect } from '../clients.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'
import { newApiKey } from '../../src/secrets/generated.ts'
import { loadOrCreateSecrets } from '../../src/secrets/secrets.ts'

/* Reads of secrets and refused access are in the audit list; a flood of attempts does not fill the catalog. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_RATE_LIMIT_PER_SECOND: '0', NEAP_RATE_LIMIT_PER_MINUTE: '0' } })
  place = await firstPlace(neap)
})

after(() => neap?.stop())

interface Audit {
  readonly audit: {
    readonly action: string
    readonly status: number
    readonly subject: string
    readonly request_id: string
    readonly project_id?: string
    readonly api_key_id?: number
    readonly address: string
  }[]
  readonly refused?: {
    readonly kind: 'api_key' | 'login'
    readonly api_key_id?: number
    readonly endpoint_id?: string
    readonly role?: string
    readonly network?: string
    readonly count: number
    readonly first_at: string
    readonly last_at: string
  }[]
}

const audit = async (): Promise<Audit> => (await send(neap, 'GET', '/audit')).body as unknown as Audit

/** The only record of refusals with all of these fields. Returns undefined when there is no such record. */
const refusal = async (wanted: Partial<NonNullable<Audit['refused']>[number]>) => {
  const found = ((await audit()).refused ?? []).filter((each) =>
    Object.entries(wanted).every(([name, value]) => each[name as keyof typeof each] === value),
  )
  assert.ok(found.length <= 1, JSON.stringify(found))
  return found[0]
}

test('a read of a password leaves an audit row, whether it is allowed or refused', async () => {
  const made = await send(neap, 'POST', '/api_keys', { body: { key_name: 'curious', scope: 'write' } })
  const reader = await send(neap, 'POST', '/api_keys', { body: { key_name: 'reader', scope: 'read' } })
  const project = `/projects/${place.project_id}`
  const paths = [
    `${project}/branches/${place.branch_id}/roles/neondb_owner/reveal_password`,
    `${project}/connection_uri?database_name=neondb&role_name=neondb_owner`,
  ]
  const routes = [
    'GET /projects/:project_id/branches/:branch_id/roles/:role_name/reveal_password',
    'GET /projects/:project_id/connection_uri',
  ]
  for (const [index, path] of paths.entries())
    for (const [{ body }, status] of [
      [made, 200],
      [reader, 403],
    ] as const) {
      const answer = await send(neap, 'GET', path, { key: body.key ?? '' })
      assert.equal(answer.status, status, answer.body.message)
      const [row] = (await audit()).audit
      assert.deepEqual(
        [row?.action, row?.status, row?.project_id, row?.api_key_id, row?.address, row?.request_id],
        [routes[index], status, place.project_id, body['id'], '127.0.0.1', answer.headers.get('x-request-id')],
      )
      assert.ok(row?.subject.endsWith(path.split('?')[0] ?? ''))
    }
})

test('a replayed reply, which may hold a password, leaves an audit row when another key requests it', async () => {
  const made = async (more = {}) =>
    (await send(neap, 'POST', '/api_keys', { body: { key_name: 'repeats', ...more } })).body
  const [first, other, bound] = [await made(), await made(), await made({ project_id: place.project_id })]
  const path = `/projects/${place.project_id}/branches/${place.branch_id}/roles/neondb_owner/reset_password`
  const passwords: unknown[] = []
  for (const { key = '' } of [first, other, bound]) {
    const answer = await send(neap, 'POST', path, { key, headers: { 'idempotency-key': 'deploy-1' } })
    assert.equal(answer.status, 200, answer.body.message)
    passwords.push((answer.body['role'] as { password: string }).password)
    const [row] = (await audit()).audit
    assert.equal(row?.request_id, answer.headers.get('x-request-id'))
  }
  assert.equal(new Set(passwords).size, 1)
  // The first key has seen this reply already, so its replay reveals no new secret.
  const own = await send(neap, 'POST', path, { key: first.key ?? '', headers: { 'idempotency-key': 'deploy-1' } })
  assert.equal(own.status, 200)
  const rows = (await audit()).audit.filter(({ subject }) => subject.endsWith(path))
  assert.deepEqual(
    rows.map((row) => [row.api_key_id, row.status]),
    [bound, other, first].map(({ id }) => [id, 200]),
  )
})

test('the audit list has the path of a request, whichever host its address names', async () => {
  const made = await send(neap, 'POST', '/api_keys', { body: { key_name: 'victim' } })
  const path = `/api/v2/api_keys/${String(made.body['id'])}`
  const { hostname, port } = new URL(neap.ready.api_url)
  const status = await new Promise((resolve, reject) => {
    request({
      hostname,
      port,
      method: 'DELETE',
      path: `http://${'a'.repeat(300)}${path}`,
      headers: { authorization: `Bearer ${neap.ready.api_key}` },
    })
      .once('response', ({ statusCode }) => resolve(statusCode))
      .once('error', reject)
      .end()
  })
  const [row] = (await audit()).audit
  assert.deepEqual([status, row?.action, row?.subject], [200, 'DELETE /api_keys/:key_id', path])
})

test('refused API keys are in the audit list, and a flood of unknown keys is one record', async () => {
  const made = await send(neap, 'POST', '/api_keys', { body: { key_name: 'short', scope: 'read' } })
  assert.equal((await send(neap, 'DELETE', `/api_keys/${String(made.body['id'])}`)).status, 200)
  for (let tried = 0; tried < 3; tried++)
    refused(await send(neap, 'GET', '/projects', { key: made.body.key ?? '' }), 401, 'UNAUTHENTICATED', /revoked/)
  const MANY = 400
  const guesses = Array.from({ length: MANY }, (_, index) => (index % 2 === 0 ? newApiKey() : `neap_guess_${index}`))
  for (const key of guesses) assert.equal((await send(neap, 'GET', '/projects', { key })).status, 401)

  const revoked = await until('the refusals of the revoked key', async () => {
    const found = await refusal({ kind: 'api_key', api_key_id: Number(made.body['id']) })
    return found?.count === 3 && found
  })
  assert.equal(revoked.network, '127.0.0.1')
  const unknown = await until('the refusals of keys that are none', async () => {
    const found = ((await audit()).refused ?? []).find((each) => each.kind === 'api_key' && !each.api_key_id)
    return found?.count === MANY && found
  })
  assert.ok(Date.parse(unknown.first_at) < Date.parse(unknown.last_at))
  assert.deepEqual(await catalogQuery(neap, `select count(*)::int from refused_access`), [{ count: 2 }])
  // No part of a key is stored.
  const text = JSON.stringify(await audit())
  for (const key of guesses.slice(0, 4)) assert.ok(!text.includes(key.slice(5, 20)))
})

test('refused logins are in the audit list by endpoint, role and network', async () => {
  const wrong = place.uri.replace(/:[^:@/]+@/, ':a-wrong-password@')
  for (const [uri, times] of [
    [wrong, 3],
    [wrong.replace('neondb_owner', 'made_up'), 2],
    [wrong.replaceAll(place.endpoint_id, 'ep-made-up-00000000'), 1],
  ] as const)
    for (let tried = 0; tried < times; tried++)
      await assert.rejects(connect(neap, uri), /password authentication failed/)
  const network = '127.0.0'
  const ofEndpoint = { kind: 'login', endpoint_id: place.endpoint_id, network } as const
  await until(
    'the refusals of the role',
    async () => (await refusal({ ...ofEndpoint, role: 'neondb_owner' }))?.count === 3,
  )
  const logins = await until('all refusals', async () => {
    const all = ((await audit()).refused ?? []).filter(({ kind }) => kind === 'login')
    return all.reduce((sum, { count }) => sum + count, 0) === 6 && all
  })
  // Names of endpoints and roles that do not exist are not stored.
  assert.deepEqual(
    new Set(logins.map(({ endpoint_id, role, count }) => `${endpoint_id} ${role} ${count}`)),
    new Set([`${place.endpoint_id} neondb_owner 3`, `${place.endpoint_id} undefined 2`, 'undefined undefined 1']),
  )
})

test('refusals of made-up names from many networks take a bounded number of rows and lose no count', async () => {
  const secrets = await loadOrCreateSecrets(join(neap.ready.data_dir, 'secret.key'))
  const catalog = openCatalog(
    embeddedCatalogUrl(join(neap.ready.data_dir, 'run'), secrets.catalogPasswords()[0]),
    1,
    () => {},
  )
  const total = async () =>
    (
      await catalogQuery<{ sum: number; rows: number }>(
        neap,
        'select sum(count)::int, count(*)::int as rows from refused_access',
      )
    )[0]
  const { sum = 0 } = (await total()) ?? {}
  const now = new Date().toISOString()
  try {
    const of = (network: number) =>
      ({
        kind: 'login',
        subject: place.endpoint_id,
        role: `r${network}`,
        network: `10.${network >> 8}.${network & 255}`,
        count: 2,
        firstAt: now,
        lastAt: now,
      }) as const
    for (let first = 0; first < 2 * MAX_RECORDS; first += 200)
      await addRefusals(
        catalog,
        Array.from({ length: 200 }, (_, index) => of(first + index)),
      )
    const { sum: then, rows } = (await total()) ?? {}
    assert.deepEqual([then, rows], [sum + 4 * MAX_RECORDS, MAX_RECORDS + 1])
    // The same bound holds in memory, and a name that Postgres cannot store does not block the others.
    const errors: unknown[] = []
    const writer = startRefusalWriter(catalog, (error) => errors.push(error))
    for (let each = 0; each < 5_000; each++)
      writer.note({ kind: 'login', subject: `ep-${each}\0\ud800`, role: 'x'.repeat(each), network: `11.0.${each}` })
    await writer.stop()
    assert.deepEqual([(await total())?.sum, errors], [sum + 4 * MAX_RECORDS + 5_000, []])
  } finally {
    await catalog.close()
  }
})
