import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Neap, startNeap } from '../neap.ts'
import { type Actor, keyOf, owner, type Scope, otherAccount } from './account.ts'
import { ask, type Ready, requestOf } from './ask.ts'
import { EVERY_ROUTE, type Key, keyedRoutes } from './every_route.ts'
import { fixedScene, NOWHERE, realScene, type Scene, type Things } from './scene.ts'
import { openState, type State, withoutWorker } from './state.ts'

/* Two accounts on one Neap: no data of one is visible to the other, and no key exceeds its permissions. */

let neap: Neap
let state: State
let alice: Actor
let bob: Actor
let hers: Scene
let his: Scene

before(async () => {
  neap = await startNeap({
    env: {
      NEAP_RATE_LIMIT_PER_MINUTE: '0',
      NEAP_RATE_LIMIT_PER_SECOND: '0',
      NEAP_RECOVER_HOURS: '1',
      NEAP_BRANCH_RECOVER_HOURS: '1',
    },
  })
  state = await openState(neap)
  alice = await owner(neap)
  bob = await otherAccount(neap, 'bob')
  hers = await realScene(neap, alice)
  his = await realScene(neap, bob)
})

after(async () => {
  await state?.close()
  await neap?.stop()
})

/** Her ids that must not appear in any answer to him. Ids of keys are too short to search for. */
const marks = (things: Things) =>
  [
    things.organization_id,
    things.project_id,
    things.branch_id,
    things.endpoint_id,
    things.operation_id,
    things.webhook_id,
    things.delivery_id,
  ].concat(things === hers ? alice.account_id : [])

/** An answer without the parts that differ between requests: the request id, and the requested ids. */
function unnamed(text: string, things: Things): string {
  // Longest first: the id of a key may be part of another id.
  const ids = Object.values(plain(things))
    .map(String)
    .sort((a, b) => b.length - a.length)
  return ids.reduce((sofar, id) => sofar.replaceAll(id, '…'), text.replace(/"request_id":"[^"]*"/, ''))
}

async function expectSameRefusal(key: string, route: Key, real: Things, made: Things): Promise<void> {
  const { input } = EVERY_ROUTE[route]
  const there = requestOf(route, real, await input(fixedScene(real)))
  const nowhere = requestOf(route, made, await input(fixedScene(made)))
  await withoutWorker(neap, state, async () => {
    const digest = await state.digest()
    const [seen, unseen] = [await ask(neap, key, there), await ask(neap, key, nowhere)]
    assert.equal(seen.status, 404, `${there.path}: ${seen.text}`)
    assert.equal(unseen.status, 404, `${nowhere.path}: ${unseen.text}`)
    assert.equal(unnamed(seen.text, real), unnamed(unseen.text, made))
    assert.deepEqual(headersOf(seen), headersOf(unseen))
    assert.equal(await state.digest(), digest)
  })
}

/** The names of an answer's headers, without `date`. */
function headersOf({ headers }: { headers: Headers }): string[] {
  return [...headers.keys()].filter((name) => name !== 'date')
}

// Runs first: later his audit log contains her ids, from his own requests.
test('the lists of an account have only its own resources', async () => {
  for (const { key } of keyedRoutes) {
    if (!key.startsWith('GET ')) continue
    const { input, asksCompute } = EVERY_ROUTE[key]
    for (const [actor, scene, others] of [
      [bob, his, hers],
      [alice, hers, his],
    ] as const) {
      const { status, text } = await ask(neap, actor.key, requestOf(key, scene, await input(scene)))
      assert.ok(status === 200 || (asksCompute && status === 501), `${key}: ${text}`)
      for (const mark of marks(others)) assert.ok(!text.includes(mark), `${key} shows ${mark} of another account`)
    }
  }
})

for (const { key } of keyedRoutes) {
  if (!key.includes('/:')) continue
  test(`${key}: a resource of another account is answered as a missing one`, async () => {
    await expectSameRefusal(bob.key, key, plain(hers), NOWHERE)
  })

  if (!/:project_id\/.*:|^(POST|PATCH).*:project_id\//.test(key)) continue
  test(`${key}: a resource of another account is not found through an own project`, async () => {
    const own = { project_id: his.project_id }
    const { input } = EVERY_ROUTE[key]
    // Only routes whose request names another of her resources besides the project.
    const request = requestOf(key, { ...plain(hers), ...own }, await input(fixedScene({ ...plain(hers), ...own })))
    if (!marks(hers).some((mark) => JSON.stringify(request).includes(mark))) return
    await expectSameRefusal(bob.key, key, { ...plain(hers), ...own }, { ...NOWHERE, ...own })
  })
}

test('an account lists only its own keys', async () => {
  const { body } = await ask(neap, bob.key, { method: 'GET', path: '/api_keys' })
  const ids = (body as unknown as { id: number }[]).map(({ id }) => id)
  assert.ok(ids.includes(his.key_id) && !ids.includes(hers.key_id))
})

for (const { key } of keyedRoutes) {
  const { scope, input } = EVERY_ROUTE[key]
  const request = async (things: Things): Promise<Ready> => requestOf(key, things, await input(fixedScene(things)))

  test(`${key} requires the scope ${scope}`, async () => {
    const order = ['read', 'write', 'admin'] as const
    for (const less of order.slice(0, order.indexOf(scope))) {
      const lesser = await keyFor(less)
      const refused = await request(plain(hers))
      await withoutWorker(neap, state, async () => {
        const digest = await state.digest()
        const answer = await ask(neap, lesser, refused)
        assert.deepEqual([answer.status, answer.body.code], [403, 'FORBIDDEN'], `${less}: ${answer.text}`)
        assert.equal(await state.digest(), digest)
      })
    }
  })

  test(`${key} refuses a key of another project`, async () => {
    const only = await keyFor('admin', his.project_id)
    const elsewhere = { ...plain(his), project_id: (await otherProject()).project_id }
    const answer = await ask(neap, only, await request(elsewhere))
    if (!key.includes(':project_id')) {
      // Either the route refuses such keys, or its answer does not mention other projects. 409: answered before, by the
      // same key.
      if (answer.status !== 200 && answer.status !== 409)
        assert.deepEqual([answer.status, answer.body.code], [403, 'FORBIDDEN'], answer.text)
      return assert.ok(!answer.text.includes(elsewhere.project_id), answer.text)
    }
    const nowhere = { ...plain(his), project_id: NOWHERE.project_id }
    const unseen = await ask(neap, only, await request(nowhere))
    assert.deepEqual([answer.status, unseen.status], [404, 404], answer.text)
    assert.equal(unnamed(answer.text, elsewhere), unnamed(unseen.text, nowhere))
  })
}

const kept = new Map<string, Promise<string>>()

/** A key of hers with that scope, or of his for one project; each is created once. */
function keyFor(scope: Scope, project?: string): Promise<string> {
  const id = `${scope} ${project}`
  const made = kept.get(id) ?? keyOf(neap, project ? bob.account_id : alice.account_id, scope, project)
  kept.set(id, made)
  return made
}

let other: ReturnType<Scene['project']> | undefined
const otherProject = () => (other ??= his.project())

/** The things of a scene without its functions. */
function plain(things: Things): Things {
  const names = Object.keys(NOWHERE) as (keyof Things)[]
  return Object.fromEntries(names.map((name) => [name, things[name]])) as unknown as Things
}
