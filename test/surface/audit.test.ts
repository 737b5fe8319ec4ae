import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Neap, startNeap } from '../neap.ts'
import { type Actor, keyOf, owner, type Scope } from './account.ts'
import { ask, requestOf } from './ask.ts'
import { EVERY_ROUTE, keyedRoutes } from './every_route.ts'
import { fixedScene, NOWHERE, realScene, type Scene } from './scene.ts'
import { openState, type State, withoutWorker } from './state.ts'

/* The audit log: every route, with valid and invalid requests, on a running Neap whose worker is frozen meanwhile. */

let neap: Neap
let state: State
let actor: Actor
let scene: Scene
const keys = {} as Record<Scope, string>

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
  actor = await owner(neap)
  scene = await realScene(neap, actor)
  for (const scope of ['read', 'write', 'admin'] as const) keys[scope] = await keyOf(neap, actor.account_id, scope)
})

after(async () => {
  await state?.close()
  await neap?.stop()
})

for (const { key, status = 200, reveals = false } of keyedRoutes) {
  const { scope, input, asksCompute } = EVERY_ROUTE[key]
  const reads = key.startsWith('GET ')

  if (reveals)
    test(`${key} writes one audit row, because its answer has a secret`, async () => {
      const request = requestOf(key, scene, await input(scene))
      for (const [scopeOfKey, answered] of [
        ['write', 200],
        ['read', 403],
      ] as const) {
        const last = await state.lastAudit()
        const answer = await ask(neap, keys[scopeOfKey], request)
        assert.equal(answer.status, answered, answer.text)
        assert.deepEqual(
          (await state.auditSince(last)).map((row) => [row.action, row.status, row.account_id, row.request_id]),
          [[key, answered, actor.account_id, answer.headers.get('x-request-id')]],
        )
      }
    })
  else
    test(`${key} ${reads ? 'writes no audit row' : 'writes one audit row with its effect'}`, async () => {
      const request = requestOf(key, scene, await input(scene))
      if (reads) {
        const last = await state.lastAudit()
        const answer = await ask(neap, keys[scope], request)
        assert.ok(answer.status === 200 || (asksCompute && answer.status === 501), answer.text)
        return assert.deepEqual(await state.auditSince(last), [])
      }
      const during = asksCompute ? (work: () => Promise<void>) => work() : withoutWorker.bind(undefined, neap, state)
      await during(async () => {
        const [last, digest] = [await state.lastAudit(), await state.digest()]
        const answer = await ask(neap, keys[scope], request)
        // An answered login has a row of its own as well, with the address of its client.
        const isOfRoute = ({ action }: { action: string }) => !action.startsWith('passwordless_login.')
        const rows = (await state.auditSince(last)).filter(isOfRoute)
        assert.equal(answer.status, status, answer.text)
        assert.equal(rows.length, 1)
        const [row] = rows
        const [subject] = request.path.split('?')
        assert.deepEqual(
          [row?.action, row?.status, row?.account_id, row?.request_id],
          [key, status, actor.account_id, answer.headers.get('x-request-id')],
        )
        assert.ok(row?.subject.endsWith(subject ?? ''), row?.subject)
        const project = request.path.split('/')[2]
        if (key.includes(':project_id')) assert.equal(row?.project_id, project)
        // What a compute is asked to do leaves no other row.
        if (asksCompute) return
        const written = await state.writtenBy(row?.xmin ?? '')
        // A deleted row names no transaction that wrote it.
        const isDeleted = key.startsWith('DELETE ') && (await state.digest()) !== digest
        assert.ok(written > 0 || isDeleted, 'nothing else was written in that transaction')
      })
    })

  if (reads) continue
  test(`a refused ${key} changes no row and writes one audit row`, async () => {
    const request = requestOf(key, scene, await input(fixedScene(scene)))
    const missing = requestOf(key, NOWHERE, await input(fixedScene(NOWHERE)))
    const refusals = [{ key: keys.read, request, status: 403 }]
    if (key.includes(':')) refusals.push({ key: keys.admin, request: missing, status: 404 })
    await withoutWorker(neap, state, async () => {
      for (const refusal of refusals) {
        const [last, digest] = [await state.lastAudit(), await state.digest()]
        const answer = await ask(neap, refusal.key, refusal.request)
        assert.equal(answer.status, refusal.status, answer.text)
        const rows = await state.auditSince(last)
        assert.deepEqual(
          rows.map((row) => [row.action, row.status, row.account_id, row.request_id]),
          [[key, refusal.status, actor.account_id, answer.headers.get('x-request-id')]],
        )
        assert.equal(await state.digest(), digest)
      }
    })
  })
}
