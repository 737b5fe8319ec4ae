import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Neap, startNeap } from '../neap.ts'
import { type Actor, owner } from './account.ts'
import { ask, requestOf } from './ask.ts'
import { EVERY_ROUTE, keyedRoutes } from './every_route.ts'
import { realScene, type Scene } from './scene.ts'

/* Every write with Prefer: wait. The answer is rebuilt after the wait, and must still conform to its route. */

let neap: Neap
let actor: Actor
let scene: Scene

before(async () => {
  neap = await startNeap({
    env: {
      NEAP_RATE_LIMIT_PER_MINUTE: '0',
      NEAP_RATE_LIMIT_PER_SECOND: '0',
      NEAP_RECOVER_HOURS: '1',
      NEAP_BRANCH_RECOVER_HOURS: '1',
    },
  })
  actor = await owner(neap)
  scene = await realScene(neap, actor)
})

after(() => neap?.stop())

for (const { key, status = 200 } of keyedRoutes) {
  // What a compute answers is no operation.
  if (key.startsWith('GET ') || EVERY_ROUTE[key].asksCompute) continue
  test(`${key} with Prefer: wait is answered after its operations have finished`, async () => {
    const request = requestOf(key, scene, await EVERY_ROUTE[key].input(scene))
    const answer = await ask(neap, actor.key, request, { prefer: 'wait=60' })
    assert.equal(answer.status, status, answer.text)
    assert.equal(answer.headers.get('preference-applied'), 'wait=60')
    const { operations = [] } = answer.body as { operations?: { action: string; status: string; error?: string }[] }
    assert.deepEqual(
      operations.filter((operation) => operation.status !== 'finished'),
      [],
    )
  })
}
