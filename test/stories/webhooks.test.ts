import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, type TestContext, test } from 'node:test'
import { NO_USE } from '../../src/catalog/consumption.ts'
import { useView } from '../../src/views/branch.ts'
import { Webhook } from 'standardwebhooks'
import type { ApiResponse } from '../../src/client.ts'
import { catalogQuery } from '../admin.ts'
import { refused, send } from '../http.ts'
import { envOf, type Neap, spawnNeap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, endpointOf, firstPlace, operationsOf, type Place, suspend } from '../project.ts'
import { otherAccount } from '../surface/account.ts'

/* Webhooks with real receivers on this machine. */

const env = {
  NEAP_WEBHOOK_ALLOW: '127.0.0.0/8',
  NEAP_WEBHOOK_TIMEOUT: '1',
  NEAP_RATE_LIMIT_PER_MINUTE: '0',
  NEAP_RATE_LIMIT_PER_SECOND: '0',
}

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({ env })
  place = await firstPlace(neap)
})
after(() => neap?.stop())

interface Heard {
  readonly id: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly event: { readonly type: string; readonly timestamp: string; readonly data: Record<string, unknown> }
}

/** A receiver: the requests it received, and its answers to the next ones. */
async function receiver(t: TestContext) {
  const heard: Heard[] = []
  const answers: ((response: ServerResponse) => void)[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (part: string) => (body += part))
    request.on('end', () => {
      const event = JSON.parse(body) as Heard['event']
      heard.push({ id: String(request.headers['webhook-id']), headers: request.headers, body, event })
      const answer = answers.shift() ?? ((to) => void to.end('thanks'))
      answer(response)
    })
  }).listen(0, '127.0.0.1')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return { heard, answers, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

type Made = ApiResponse<'POST /webhooks'>
type Events = Made['webhook']['events']
type Delivery = ApiResponse<'GET /webhooks/:webhook_id/deliveries'>['deliveries'][number]

/** Creates a webhook that is deleted after the test. */
async function webhook(
  t: TestContext,
  url: string,
  events: Events = ['branch.ready'],
  project_id?: string,
): Promise<Made> {
  const made = await neap.call('POST /webhooks', { body: { webhook: { url, events, project_id } } })
  const params = { webhook_id: made.webhook.id }
  t.after(() => neap.call('DELETE /webhooks/:webhook_id', { params }).catch(() => {}))
  return made
}

const sendTest = async (webhook_id: string): Promise<Delivery> =>
  (await neap.call('POST /webhooks/:webhook_id/test', { params: { webhook_id } })).delivery

const deliveriesOf = async (webhook_id: string): Promise<Delivery[]> =>
  (await neap.call('GET /webhooks/:webhook_id/deliveries', { params: { webhook_id }, query: { limit: 1000 } }))
    .deliveries

const webhookOf = async (webhook_id: string) =>
  (await neap.call('GET /webhooks/:webhook_id', { params: { webhook_id } })).webhook

/** Waits until a delivery satisfies `fits`. */
const delivery = (webhook_id: string, id: string, fits: (delivery: Delivery) => boolean): Promise<Delivery> =>
  until(`delivery ${id}`, async () => (await deliveriesOf(webhook_id)).find((each) => each.id === id && fits(each)))

/** Makes all pending deliveries of a webhook due. */
const hurry = (webhook_id: string) =>
  catalogQuery(
    neap,
    `with due as (update webhook_delivery set due_at = clock_timestamp() where webhook_id = $1 and due_at is not null)
     select pg_notify('webhook_delivery', '')`,
    [webhook_id],
  )

test("events of branches, endpoints and operations are sent with the API's JSON, signed", async (t) => {
  const { heard, url } = await receiver(t)
  const all: Events = [
    'operation.scheduling',
    'operation.running',
    'operation.finished',
    'endpoint.created',
    'endpoint.updated',
    'endpoint.active',
    'endpoint.idle',
    'endpoint.deleted',
    'branch.created',
    'branch.ready',
    'branch.updated',
    'branch.deleted',
  ]
  const { webhook: made, secret } = await webhook(t, url, all)
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)

  const branch = await branchOff(neap, place)
  await suspend(neap, branch)
  const { project_id, branch_id, endpoint_id } = branch
  const asleep = await endpointOf(neap, branch)
  const name = 'renamed'
  const { branch: renamed } = await neap.call('PATCH /projects/:project_id/branches/:branch_id', {
    params: { project_id, branch_id },
    body: { branch: { name } },
  })
  await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
    params: { project_id, endpoint_id },
    body: { endpoint: { name } },
  })
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { project_id, branch_id },
  })
  await neap.ended(operations)

  const about = (await operationsOf(neap, branch)).filter((each) => each.branch_id === branch_id)
  const expected = [
    ...about.flatMap(({ id }) => ['scheduling', 'running', 'finished'].map((status) => `${id} operation.${status}`)),
    ...['created', 'active', 'idle', 'updated', 'deleted'].map((what) => `${endpoint_id} endpoint.${what}`),
    ...['created', 'ready', 'updated', 'deleted'].map((what) => `${branch_id} branch.${what}`),
  ].sort()
  const received = () => heard.map(({ event }) => `${String(event.data['id'])} ${event.type}`).sort()
  await until('all of it', () => heard.length >= expected.length)
  assert.deepEqual(received(), expected)

  const find = (type: string, id: string) =>
    heard.find(({ event }) => event.type === type && event.data['id'] === id)?.event.data
  for (const operation of about) assert.deepEqual(find('operation.finished', operation.id), operation)
  assert.deepEqual(find('endpoint.idle', endpoint_id), asleep)
  assert.deepEqual(find('endpoint.created', endpoint_id)?.['settings'], { pg_settings: {} })
  // Events do not tell what a branch has used.
  assert.deepEqual(find('branch.updated', branch_id), { ...renamed, ...useView(NO_USE) })

  for (const { id, headers, body, event } of heard) {
    assert.deepEqual(new Webhook(secret).verify(body, headers as Record<string, string>), event)
    assert.throws(() => new Webhook(`whsec_${'A'.repeat(43)}=`).verify(body, headers as Record<string, string>))
    assert.match(event.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
    assert.equal(headers['content-type'], 'application/json')
    assert.doesNotMatch(body, /whsec_|npg_|compute_id|"input"/)
    const { status, response_status, response_body } = await delivery(made.id, id, (each) => each.status !== 'pending')
    assert.deepEqual([status, response_status, response_body], ['delivered', 200, 'thanks'])
  }
})

test('a rolled-back, unselected or foreign event is not sent', async (t) => {
  const { heard, url } = await receiver(t)
  const { webhook: made } = await webhook(t, url, ['endpoint.updated'])
  await webhook(t, url, ['endpoint.updated'], (await firstPlace(neap)).project_id)
  const bob = await otherAccount(neap, 'bob')
  const events = ['endpoint.updated']
  const his = await send(neap, 'POST', '/webhooks', { key: bob.key, body: { webhook: { url, events } } })
  assert.equal(his.status, 201)
  const { id } = his.body['webhook'] as { id: string }
  refused(await send(neap, 'GET', `/webhooks/${id}`), 404, 'NOT_FOUND', /webhook .* not found/)
  assert.deepEqual(
    (await neap.call('GET /webhooks', {})).webhooks.filter((each) => each.id === id),
    [],
  )

  await catalogQuery(neap, `begin; update endpoint set name = 'undone'; rollback`)
  await catalogQuery(neap, `update endpoint set last_active = clock_timestamp(), idle_check_at = clock_timestamp()`)
  const body = { endpoint: { name: 'done' } }
  const { project_id, endpoint_id } = place
  await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params: { project_id, endpoint_id }, body })
  await sendTest(made.id)
  await until('three requests', () => heard.length >= 3)
  assert.deepEqual(heard.map(({ event }) => `${event.type} ${String(event.data['name'])}`).sort(), [
    'endpoint.updated done',
    'endpoint.updated done',
    'webhook.test undefined',
  ])
  const [row] = await catalogQuery<{ count: string }>(
    neap,
    'select count(*) from webhook_delivery d join webhook w on w.id = d.webhook_id where w.account_id = $1',
    [bob.account_id],
  )
  assert.equal(Number(row?.count), 0)
})

test('a failed delivery is retried with the same id and body', async (t) => {
  const { heard, answers, url } = await receiver(t)
  const other = await receiver(t)
  const { webhook: made } = await webhook(t, url)
  answers.push((response) => void response.writeHead(500).end('not today'))
  const { id } = await sendTest(made.id)
  const first = await delivery(made.id, id, ({ error }) => error !== undefined)
  assert.deepEqual(
    [first.status, first.attempts, first.response_status, first.response_body, first.error],
    ['pending', 1, 500, 'not today', 'it answered 500'],
  )
  assert.ok((first.next_attempt_at ?? '') > (first.attempted_at ?? 'z'))
  const second = await delivery(made.id, id, ({ status }) => status === 'delivered')
  assert.deepEqual([second.attempts, second.response_status, second.error], [2, 200, undefined])
  assert.deepEqual(
    heard.map((each) => each.id),
    [id, id],
  )
  assert.equal(heard[0]?.body, heard[1]?.body)

  answers.push((response) => void response.writeHead(307, { location: other.url }).end())
  const redirected = await sendTest(made.id)
  const led = await delivery(made.id, redirected.id, ({ error }) => error !== undefined)
  assert.deepEqual([led.response_status, led.error], [307, 'it answered 307, and redirects are not followed'])
  answers.push(() => {})
  const ignored = await sendTest(made.id)
  const late = await delivery(made.id, ignored.id, ({ error }) => error !== undefined)
  assert.deepEqual([late.status, late.response_status, late.error], ['pending', undefined, 'no answer within 1 s'])
  assert.equal(other.heard.length, 0)

  // A redelivery sends it once more.
  const params = { webhook_id: made.id, delivery_id: id }
  await neap.call('POST /webhooks/:webhook_id/deliveries/:delivery_id/redeliver', { params })
  const again = await delivery(made.id, id, ({ attempts, status }) => attempts === 3 && status === 'delivered')
  assert.equal(again.error, undefined)
  assert.equal(heard.filter((each) => each.id === id).length, 3)
})

test('an unreachable webhook is given up and finally disabled', async (t) => {
  const { heard, answers, url } = await receiver(t)
  const { webhook: made } = await webhook(t, url)
  for (let times = 0; times < 20; times++) answers.push((response) => void response.writeHead(503).end())
  const { id } = await sendTest(made.id)
  for (let attempts = 1; attempts < 8; attempts++) {
    // During an attempt, the next one is due in a few seconds, in case the worker dies before it records the outcome.
    const waits = ({ attempted_at = '', next_attempt_at = '' }: Delivery) =>
      attempts === 1 || Date.parse(next_attempt_at) - Date.parse(attempted_at) > 20_000
    await delivery(made.id, id, (each) => each.attempts === attempts && each.error !== undefined && waits(each))
    await hurry(made.id)
  }
  const last = await delivery(made.id, id, ({ status }) => status === 'failed')
  assert.deepEqual([last.attempts, last.next_attempt_at, heard.length], [8, undefined, 8])
  const failing = await webhookOf(made.id)
  assert.deepEqual([failing.enabled, typeof failing.failing_since], [true, 'string'])

  await catalogQuery(neap, `update webhook set failing_since = failing_since - interval '3 days' where id = $1`, [
    made.id,
  ])
  await catalogQuery(
    neap,
    `with last as (insert into webhook_delivery (webhook_id, event, subject, attempts)
                   values ($1, 'webhook.test', '{}', 7))
     select pg_notify('webhook_delivery', '')`,
    [made.id],
  )
  const disabled = await until('the end of the webhook', async () => {
    const now = await webhookOf(made.id)
    return !now.enabled && now
  })
  assert.match(disabled.disabled_reason ?? '', /^no delivery has succeeded for 3 days; last: it answered 503$/)
  const to = `/webhooks/${made.id}`
  refused(await send(neap, 'POST', `${to}/test`), 409, 'CONFLICT', /is disabled/)
  refused(await send(neap, 'POST', `${to}/deliveries/${id}/redeliver`), 409, 'CONFLICT', /is disabled/)

  const { webhook: enabled } = await neap.call('PATCH /webhooks/:webhook_id', {
    params: { webhook_id: made.id },
    body: { webhook: { enabled: true } },
  })
  assert.deepEqual([enabled.enabled, enabled.disabled_reason, enabled.failing_since], [true, undefined, undefined])
  answers.length = 0
  answers.push((response) => void response.writeHead(410).end())
  const refusedForGood = await sendTest(made.id)
  await delivery(made.id, refusedForGood.id, ({ status }) => status === 'failed')
  assert.equal((await webhookOf(made.id)).disabled_reason, 'it answered 410 Gone')
})

test('both secrets sign after a rotation; disabling a webhook gives up its deliveries', async (t) => {
  const { heard, answers, url } = await receiver(t)
  const { webhook: made, secret } = await webhook(t, url)
  const params = { webhook_id: made.id }
  const rotated = await neap.call('POST /webhooks/:webhook_id/rotate_secret', { params })
  assert.ok(rotated.webhook.previous_secret_until)
  await sendTest(made.id)
  await until('a request', () => heard.length === 1)
  const { body, headers } = heard[0] as Heard
  for (const each of [secret, rotated.secret]) new Webhook(each).verify(body, headers as Record<string, string>)
  await catalogQuery(neap, 'update webhook set previous_secret_until = clock_timestamp() where id = $1', [made.id])
  await sendTest(made.id)
  await until('another', () => heard.length === 2)
  const later = heard[1] as Heard
  new Webhook(rotated.secret).verify(later.body, later.headers as Record<string, string>)
  assert.throws(() => new Webhook(secret).verify(later.body, later.headers as Record<string, string>))

  answers.push((response) => void response.writeHead(500).end())
  const { id } = await sendTest(made.id)
  await delivery(made.id, id, ({ error }) => error !== undefined)
  await neap.call('PATCH /webhooks/:webhook_id', { params, body: { webhook: { enabled: false } } })
  const [newest] = await deliveriesOf(made.id)
  assert.deepEqual([newest?.id, newest?.status, newest?.error], [id, 'failed', 'the webhook was disabled'])
})

test('two workers share the deliveries without loss', async (t) => {
  const { heard, url } = await receiver(t)
  const { webhook: made } = await webhook(t, url)
  const second = spawnNeap(['worker'], envOf(neap.ready.data_dir, env))
  const ended = once(second, 'exit')
  t.after(async () => {
    second.kill('SIGTERM')
    await ended
  })
  let said = ''
  for (const stream of [second.stdout, second.stderr]) stream?.on('data', (text: Buffer) => (said += text.toString()))
  await until('the second worker', () => said.includes('"ready"'))
  const ids = new Set<string>()
  for (let number = 0; number < 60; number++) ids.add((await sendTest(made.id)).id)
  await until('all to be delivered', async () =>
    (await deliveriesOf(made.id)).every(({ status }) => status === 'delivered'),
  )
  assert.deepEqual(new Set(heard.map(({ id }) => id)), ids)
  assert.equal(heard.length, ids.size)

  const params = { webhook_id: made.id }
  const paged: string[] = []
  for (let cursor: number | undefined, more = true; more;) {
    const query = { limit: 7, cursor }
    const { deliveries, pagination } = await neap.call('GET /webhooks/:webhook_id/deliveries', { params, query })
    paged.push(...deliveries.map(({ id }) => id))
    more = pagination !== undefined
    cursor = Number(pagination?.cursor)
  }
  assert.deepEqual(paged, [...ids].toReversed())
})

for (const signal of ['SIGKILL', 'SIGTERM'] as const)
  test(`the next worker delivers after ${signal} ends one during a delivery`, async (t) => {
    const { heard, answers, url } = await receiver(t)
    const { webhook: made } = await webhook(t, url)
    answers.push(() => {})
    const { id } = await sendTest(made.id)
    await until('the request', () => heard.length === 1)
    process.kill(neap.part('worker') ?? assert.fail('no worker runs'), signal)
    const { attempts } = await delivery(made.id, id, ({ status }) => status === 'delivered')
    assert.deepEqual([attempts, heard.map((each) => each.id)], [2, [id, id]])
  })

test('an undeliverable payload counts as an attempt', async (t) => {
  const { url } = await receiver(t)
  const { webhook: made } = await webhook(t, url)
  // As if sealed under another master key.
  await catalogQuery(neap, `update webhook set secret = '\\x0102' where id = $1`, [made.id])
  const { id } = await sendTest(made.id)
  const { attempts, error } = await delivery(made.id, id, (each) => each.error !== undefined)
  assert.deepEqual([attempts, error], [1, 'it could not be sent: the log of the worker says why'])
})

test('a webhook with an unreachable URL, an unknown event or a missing project is refused', async () => {
  const ask = (url: string, events: unknown = ['branch.ready'], more: object = {}) =>
    send(neap, 'POST', '/webhooks', { body: { webhook: { url, events, ...more } } })
  refused(await ask('https://10.0.0.1/'), 422, 'NOT_ALLOWED', /neither public nor in a network of NEAP_WEBHOOK_ALLOW/)
  refused(await ask('http://8.8.8.8/'), 422, 'NOT_ALLOWED', /use https/)
  refused(await ask('https://me:secret@example.com/'), 422, 'NOT_ALLOWED', /user or password/)
  refused(await ask('nowhere'), 400, 'INVALID_REQUEST', /webhook.url/)
  refused(await ask('https://example.com/', []), 400, 'INVALID_REQUEST', /webhook.events/)
  refused(await ask('https://example.com/', ['all']), 400, 'INVALID_REQUEST', /webhook.events/)
  const elsewhere = { project_id: 'nowhere-isle-00000000' }
  refused(await ask('https://example.com/', ['branch.ready'], elsewhere), 404, 'NOT_FOUND', /project/)
})
