import assert from 'node:assert/strict'
import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { BASE } from '../../src/http/mount.ts'
import { ERRORS } from '../../src/errors.ts'
import { routes } from '../../src/http/routes/index.ts'
import { type Neap, startNeap } from '../neap.ts'
import { type Actor, owner } from './account.ts'
import { ask, placeholders } from './ask.ts'
import { EVERY_ROUTE } from './every_route.ts'
import { bodies, headers, type Parts, paths, queries, type Wire } from './garbled.ts'
import { realScene, type Scene } from './scene.ts'
import { openState, type State, withoutWorker } from './state.ts'

/*
 * Malformed and random requests for every route: never a 5xx, never a changed row after a refusal, always the error
 * body. A failure prints its seed and path; repeat it with NEAP_SURFACE_SEED, and run longer with NEAP_SURFACE_RUNS.
 */

const SEED = Number(process.env['NEAP_SURFACE_SEED'] ?? Date.now() % 2 ** 31)
const RUNS = Number(process.env['NEAP_SURFACE_RUNS'] ?? 100)

/** Internals that no message may reveal: Postgres' error texts, places in the code. */
const INTERNALS =
  /invalid input syntax|violates|relation "|pg_catalog|byte sequence|\bSQLSTATE|\.ts:\d|node_modules|file:\/\/|\n\s+at /

let neap: Neap
let state: State
let actor: Actor
let scene: Scene
let digest: string
let thaw: () => Promise<void>
let apiPid: number | undefined
const agent = new Agent({ keepAlive: true, maxSockets: 4 })

before(async () => {
  console.log(`# NEAP_SURFACE_SEED=${SEED} NEAP_SURFACE_RUNS=${RUNS}`)
  neap = await startNeap({
    env: { NEAP_RATE_LIMIT_PER_MINUTE: '0', NEAP_RATE_LIMIT_PER_SECOND: '0', NEAP_WAKE_TIMEOUT: '1' },
  })
  state = await openState(neap)
  actor = await owner(neap)
  scene = await realScene(neap, actor)
  apiPid = neap.part('api')
  // From here on only requests change data.
  const held = Promise.withResolvers<void>()
  const frozen = Promise.withResolvers<void>()
  const over = withoutWorker(neap, state, () => {
    frozen.resolve()
    return held.promise
  })
  thaw = () => {
    held.resolve()
    return over
  }
  await frozen.promise
  digest = await state.digest()
})

after(async () => {
  if (state) {
    // Cancel the many requested operations instead of running them.
    await state.query(
      `update operation set status = 'failed', finished_at = clock_timestamp() where finished_at is null`,
    )
    await state.query(`update endpoint set pending_state = null where pending_state is not null`)
    await thaw()
    await state.close()
  }
  agent.destroy()
  await neap?.stop()
})

interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** Sends it unchanged. Also accepts a connection that the server closes within a body that is too large. */
function sendRaw({ method, path, headers: extra, body }: Wire): Promise<Reply> {
  const { hostname, port } = new URL(neap.ready.api_url)
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: hostname,
        port,
        method,
        path: `${BASE}${path}`,
        agent,
        headers: {
          authorization: `Bearer ${actor.key}`,
          ...extra,
          ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
        },
      },
      (response) => {
        const status = response.statusCode ?? 0
        if (response.headers['content-type']?.startsWith('text/event-stream')) {
          sent.destroy()
          return resolve({ status, headers: response.headers, text: '' })
        }
        let text = ''
        response.setEncoding('utf8').on('data', (part: string) => (text += part))
        response.on('end', () => resolve({ status, headers: response.headers, text }))
        response.on('error', reject)
      },
    )
    sent.on('error', reject)
    sent.end(body)
  })
}

function expectErrorBody({ text, headers: received, status }: Reply): void {
  const body = JSON.parse(text) as Record<string, string>
  assert.deepEqual(Object.keys(body).sort(), ['code', 'message', 'request_id'], text)
  const declared = ERRORS[body['code'] as keyof typeof ERRORS]
  assert.ok(declared, `${body['code']} is no code of ours`)
  assert.equal(status, declared.status)
  // A replayed reply is the first one, word for word.
  if (!received['idempotency-replayed']) assert.equal(body['request_id'], received['x-request-id'])
  assert.ok(body['message'])
  assert.doesNotMatch(body['message'] ?? '', INTERNALS)
}

for (const route of routes) {
  test(`${route.key}: a random request gets a valid answer, and a refusal changes no row`, async () => {
    const { params, query, body } = route as unknown as Parts
    const [method = '', template = ''] = route.key.split(' ')
    const known = { ...placeholders(scene), ...names(scene) } as Record<string, string>
    // A valid DELETE would remove resources that other tests need, and no compute answers while the worker is frozen.
    const maySucceed = (body ?? query ?? method === 'GET') && method !== 'DELETE' && !EVERY_ROUTE[route.key].asksCompute
    const path = paths(template, known, maySucceed)
    const wires = fc
      .tuple(
        path,
        query ? queries(query, known) : fc.constant(''),
        headers,
        body ? bodies(body, known) : fc.constant({ headers: {} }),
      )
      .map(([at, search, extra, sent]): Wire => ({
        method,
        path: `${at}${search}`,
        ...sent,
        headers: { ...extra, ...sent.headers },
      }))
    const runs = body || query ? RUNS : params ? Math.ceil(RUNS / 4) : 3
    await fc.assert(
      fc.asyncProperty(wires, async (wire) => {
        const reply = await sendRaw(wire)
        assert.ok(reply.status < 500 || reply.status === 501, `${reply.status} ${reply.text}`)
        const now = await state.digest()
        if (reply.status >= 400) {
          expectErrorBody(reply)
          assert.equal(now, digest, 'a refused request changed something')
        }
        digest = now
      }),
      { seed: SEED, numRuns: runs, verbose: 1 },
    )
  })
}

test('the same process answers after all requests', async () => {
  assert.equal(neap.part('api'), apiPid)
  const { status, body } = await ask(neap, actor.key, { method: 'GET', path: `/projects/${scene.project_id}` })
  assert.deepEqual([status, (body['project'] as { id: string }).id], [200, scene.project_id])
})

/** Body fields that name existing resources. */
const names = ({ branch_id, role, database, organization_id }: Scene) => ({
  parent_id: branch_id,
  source_branch_id: branch_id,
  owner_name: role,
  role_name: role,
  database_name: database,
  db_name: database,
  org_id: organization_id,
  type: 'read_write',
})
