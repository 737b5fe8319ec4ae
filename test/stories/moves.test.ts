import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { postmastersOf, until } from '../processes.ts'
import { branchOff, endpointOf, firstPlace, operationsOf, type Place } from '../project.ts'

/*
 * An endpoint gets another change before its move to another branch has ended: the compute on the branch it left is
 * stopped regardless.
 */

let neap: Neap
let home: Place

before(async () => {
  neap = await startNeap()
  home = await firstPlace(neap)
})

after(() => neap?.stop())

/** An endpoint with a running compute, and a branch without an endpoint. */
async function running(): Promise<{ from: Place; to: string; pid: number }> {
  const from = await branchOff(neap, home)
  await query(neap, from.uri, 'create table place as select 1 as number')
  const body = { branch: { parent_id: home.branch_id } }
  const { branch, operations } = await neap.call('POST /projects/:project_id/branches', { params: from, body })
  await neap.ended(operations)
  const postmaster = postmastersOf(neap.ready.data_dir).find(({ directory }) => directory.includes(from.branch_id))
  assert.ok(postmaster)
  return { from, to: branch.id, pid: postmaster.pid }
}

const move = async (place: Place, branch_id: string) =>
  (
    await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
      params: place,
      body: { endpoint: { branch_id } },
    })
  ).operations

/** Runs `act` while the worker is frozen, so that no operation starts. */
async function withFrozenWorker<T>(act: () => Promise<T>): Promise<T> {
  const worker = neap.part('worker') ?? assert.fail('no worker runs')
  process.kill(worker, 'SIGSTOP')
  try {
    return await act()
  } finally {
    process.kill(worker, 'SIGCONT')
  }
}

const hasEnded = (pid: number) =>
  until(`process ${pid} is gone`, async () => !postmastersOf(neap.ready.data_dir).some((each) => each.pid === pid))

/** Asserts that no operation failed, except cancelled ones. */
async function assertNoFailure(): Promise<void> {
  const failed = (await operationsOf(neap, home)).filter(({ status }) => status === 'failed')
  assert.deepEqual(
    failed.map(({ error }) => error ?? '').filter((error) => !error.startsWith('cancelled: ')),
    [],
  )
}

test('an endpoint that is moved back at once serves its first branch, without its old sessions', async () => {
  const { from, to, pid } = await running()
  const operations = await withFrozenWorker(async () => [
    ...(await move(from, to)),
    ...(await move(from, from.branch_id)),
  ])
  await Promise.all(operations.map((operation) => neap.ended([operation]).catch(() => {})))
  await hasEnded(pid)
  assert.deepEqual(await query(neap, from.uri, 'select number from place'), [{ number: 1 }])
  await assertNoFailure()
})

test('a moved endpoint that is disabled, deleted or loses its old branch stops its old compute', async () => {
  const places = [await running(), await running(), await running()]
  const [deleted, disabled, orphaned] = places.map(({ from }) => from) as [Place, Place, Place]
  await withFrozenWorker(async () => {
    for (const { from, to } of places) await move(from, to)
    await neap.call('DELETE /projects/:project_id/endpoints/:endpoint_id', { params: deleted })
    const body = { endpoint: { disabled: true } }
    await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params: disabled, body })
    await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params: orphaned })
  })
  for (const { pid } of places) await hasEnded(pid)
  await until('it is at rest', async () => (await endpointOf(neap, disabled)).pending_state === undefined)
  assert.equal((await endpointOf(neap, disabled)).current_state, 'idle')
  await assert.rejects(query(neap, orphaned.uri, 'select number from place'), /relation "place" does not exist/)
  await assertNoFailure()
})

test('the suspend of the old compute cannot be cancelled', async () => {
  const { from, to, pid } = await running()
  const refusal = await withFrozenWorker(async () => {
    const suspend = (await move(from, to)).find(({ action }) => action === 'suspend_compute')
    return send(neap, 'POST', `/projects/${from.project_id}/operations/${suspend?.id}/cancel`)
  })
  refused(refusal, 409, 'CONFLICT', /its endpoint has moved to another branch/)
  await hasEnded(pid)
  await assertNoFailure()
})
