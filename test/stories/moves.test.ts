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
async function whileNothingBegins<T>(act: () => Promise<T>): Promise<T> {
  const worker = neap.part('worker') ?? assert.fail('no worker runs')
  process.kill(worker, 'SIGSTOP')
  try {
    return await act()
  } finally {
    process.kill(worker, 'SIGCONT')
  }
}

const isGone = (pid: number) =>
  until(`process ${pid} is gone`, async () => !postmastersOf(neap.ready.data_dir).some((each) => each.pid === pid))

/** Asserts that no operation failed, except cancelled ones. */
async function nothingFailed(): Promise<void> {
  const failed = (await operationsOf(neap, home)).filter(({ status }) => status === 'failed')
  assert.deepEqual(
    failed.map(({ error }) => error ?? '').filter((error) => !error.startsWith('cancelled: ')),
    [],
  )
}

test('moved back at once, it is where it was, and its sessions have ended', async () => {
  const { from, to, pid } = await running()
  const operations = await whileNothingBegins(async () => [
    ...(await move(from, to)),
    ...(await move(from, from.branch_id)),
  ])
  await Promise.all(operations.map((operation) => neap.ended([operation]).catch(() => {})))
  await isGone(pid)
  assert.deepEqual(await query(neap, from.uri, 'select number from place'), [{ number: 1 }])
  await nothingFailed()
})

test('deleted, disabled, or with its old branch deleted: nothing runs on', async () => {
  const places = [await running(), await running(), await running()]
  const [deleted, disabled, orphaned] = places.map(({ from }) => from) as [Place, Place, Place]
  await whileNothingBegins(async () => {
    for (const { from, to } of places) await move(from, to)
    await neap.call('DELETE /projects/:project_id/endpoints/:endpoint_id', { params: deleted })
    const body = { endpoint: { disabled: true } }
    await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params: disabled, body })
    await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params: orphaned })
  })
  for (const { pid } of places) await isGone(pid)
  await until('it is at rest', async () => (await endpointOf(neap, disabled)).pending_state === undefined)
  assert.equal((await endpointOf(neap, disabled)).current_state, 'idle')
  await assert.rejects(query(neap, orphaned.uri, 'select number from place'), /relation "place" does not exist/)
  await nothingFailed()
})

test('what stops the compute that it has left cannot be cancelled', async () => {
  const { from, to, pid } = await running()
  const refusal = await whileNothingBegins(async () => {
    const suspend = (await move(from, to)).find(({ action }) => action === 'suspend_compute')
    return send(neap, 'POST', `/projects/${from.project_id}/operations/${suspend?.id}/cancel`)
  })
  refused(refusal, 409, 'CONFLICT', /its endpoint has moved to another branch/)
  await isGone(pid)
  await nothingFailed()
})
