import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Answer, refused, type Request, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { otherAccount } from '../surface/account.ts'
import { openState } from '../surface/state.ts'

/* Idempotency keys and rate limits per API key and account. */

const PER_SECOND = 30

let neap: Neap

before(async () => {
  neap = await startNeap({
    args: ['--no-project'],
    env: { NEAP_RATE_LIMIT_PER_SECOND: String(PER_SECOND), NEAP_PROJECTS_LIMIT: '3' },
  })
})

after(() => neap?.stop())

const http = (method: string, path: string, request?: Request) => send(neap, method, path, request)
const under = (idempotencyKey: string, more: Record<string, string> = {}) => ({
  headers: { 'idempotency-key': idempotencyKey, ...more },
})
const replayed = ({ headers }: Answer) => headers.get('idempotency-replayed') === 'true'

interface Body {
  readonly id: number
  readonly key: string
  readonly project: { id: string; name: string }
  readonly operations: { id: string; project_id: string }[]
}

/** Asserts the status of an answer and returns its body. */
function body({ status, body: found }: Answer, expected = 200): Body {
  assert.equal(status, expected, found.message)
  return found as unknown as Body
}

const newKey = (name: string, request: Request = {}, scope = 'write') =>
  http('POST', '/api_keys', { ...request, body: { key_name: name, scope } })
const keys = async () => (await http('GET', '/api_keys')).body as unknown as { id: number; name: string }[]

test('a repeated change and a repeated deletion take effect once', async () => {
  const made = body(await http('POST', '/projects', { body: { project: { name: 'first' } }, ...under('make') }), 201)
  const path = `/projects/${made.project.id}`
  const rename = (name: string, request: Request = {}) =>
    http('PATCH', path, { ...request, body: { project: { name } } })
  const second = await rename('second', under('rename'))
  body(await rename('third'))
  const again = await rename('second', under('rename'))
  assert.deepEqual([again.body, replayed(again)], [second.body, true])
  assert.equal(body(await http('GET', path)).project.name, 'third')

  const { id } = body(await newKey('short'))
  const deleted = await http('DELETE', `/api_keys/${id}`, under('delete'))
  const repeated = await http('DELETE', `/api_keys/${id}`, under('delete'))
  assert.deepEqual([repeated.status, repeated.body, replayed(repeated)], [200, deleted.body, true])
  refused(await http('DELETE', `/api_keys/${id}`), 404, 'NOT_FOUND', /not found/)
  await neap.ended(made.operations)
})

test('the same request with another Prefer: wait is a repeat', async () => {
  const ask = (headers: Record<string, string>) => {
    const request = under('patient', headers)
    return http('POST', '/projects', { body: { project: { name: 'awaited' } }, ...request })
  }
  const made = await ask({})
  const again = await ask({ prefer: 'wait=60' })
  assert.equal(again.status, 201)
  assert.deepEqual([body(again, 201).project.id, replayed(again)], [body(made, 201).project.id, true])
  await neap.ended(body(made, 201).operations)
})

test('idempotency keys are separate per account', async () => {
  const bob = await otherAccount(neap, 'bob')
  const asked = { key_name: 'same' }
  const his = await http('POST', '/api_keys', { key: bob.key, body: asked, ...under('same') })
  const hers = await http('POST', '/api_keys', { body: asked, ...under('same') })
  assert.notEqual(body(his).id, body(hers).id)
  assert.deepEqual([replayed(his), replayed(hers)], [false, false])
  // Each account gets its own reply again, including the API key.
  for (const [key, first] of [
    [bob.key, his],
    [neap.ready.api_key, hers],
  ] as const) {
    const again = await http('POST', '/api_keys', { key: key ?? null, body: asked, ...under('same') })
    assert.deepEqual([again.body, replayed(again)], [first.body, true])
  }
})

test('concurrent requests create no more projects than the limit', async () => {
  const CONCURRENT = 4
  // The account has two projects and the limit is three. The lock keeps every request from creating its branch until
  // all have got that far.
  const state = await openState(neap)
  let asking: Promise<Answer>[]
  try {
    await state.query('begin')
    await state.query('lock table branch in exclusive mode')
    asking = Array.from({ length: CONCURRENT }, () => http('POST', '/projects', { body: { project: {} } }))
    await until('all of them wait', async () => {
      const [row] = await state.query<{ count: number }>('select count(*)::int from pg_locks where not granted')
      return (row?.count ?? 0) >= CONCURRENT
    })
    await state.query('rollback')
  } finally {
    await state.close()
  }
  const answers = await Promise.all(asking)
  const made = answers.filter(({ status }) => status === 201)
  for (const answer of made) await neap.ended(body(answer, 201).operations)
  assert.equal(made.length, 1)
  for (const answer of answers)
    if (!made.includes(answer)) refused(answer, 422, 'PROJECTS_LIMIT_EXCEEDED', /3 projects/)
})

test('rate limits are separate per key, and a limited request can be repeated', async () => {
  const { key } = body(await newKey('busy', {}, 'admin'))
  const asking = Array.from({ length: 4 * PER_SECOND }, (_, number) =>
    newKey(`n${number}`, { key, ...under(`n${number}`) }),
  )
  const other = newKey('calm')
  const answers = await Promise.all(asking)
  body(await other)
  const limited = answers.findIndex(({ status }) => status === 429)
  refused(answers[limited] as Answer, 429, 'RATE_LIMITED', /30 requests in a second/)
  assert.ok(!(await keys()).some(({ name }) => name === `n${limited}`))
  const again = await until('its turn', async () => {
    const answer = await newKey(`n${limited}`, { key, ...under(`n${limited}`) })
    return answer.status !== 429 && answer
  })
  assert.deepEqual([again.status, replayed(again)], [200, false])
  assert.equal((await keys()).filter(({ name }) => name === `n${limited}`).length, 1)
})
