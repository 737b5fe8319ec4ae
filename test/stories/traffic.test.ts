import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/* Bytes sent to clients are reported for their endpoint, its branch and its project. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
})
after(() => neap?.stop())

const BYTES = 300_000

test('bytes sent to clients are counted per endpoint, branch and project, and outlive the endpoint', async () => {
  const { project_id, endpoint_id } = place
  const project = { params: { project_id } }
  const endpoint = { params: { project_id, endpoint_id } }
  const { branch_id } = (await neap.call('GET /projects/:project_id/endpoints/:endpoint_id', endpoint)).endpoint
  await query(neap, place.uri, `select repeat('x', ${BYTES}) as text`)
  const ofProject = async () => (await neap.call('GET /projects/:project_id', project)).project.data_transfer_bytes
  const ofBranch = async () =>
    (await neap.call('GET /projects/:project_id/branches/:branch_id', { params: { project_id, branch_id } })).branch
  const ofBranches = async () =>
    (await neap.call('GET /projects/:project_id/branches', { ...project, query: { limit: 10 } })).branches
  const ofEndpoint = async () =>
    (await neap.call('GET /projects/:project_id/endpoints/:endpoint_id/activity', endpoint)).activity.traffic

  const sentBytes = await until('all counts agree', async () => {
    const { since, bytes_to_clients: bytes, bytes_from_clients, connections } = await ofEndpoint()
    assert.match(since, /^20\d\d-\d\d-01T00:00:00\.000000Z$/)
    if (bytes < BYTES) return undefined
    assert.ok(bytes_from_clients > 0)
    assert.equal(connections, 1)
    const others = [await ofProject(), ...[await ofBranch(), ...(await ofBranches())].map((b) => b.data_transfer_bytes)]
    return others.every((other) => other === bytes) && bytes
  })
  assert.ok(sentBytes < BYTES + 10_000, `${sentBytes} bytes`)

  const { operations } = await neap.call('DELETE /projects/:project_id/endpoints/:endpoint_id', endpoint)
  await neap.ended(operations)
  assert.ok((await ofProject()) >= sentBytes)
  assert.ok((await ofBranch()).data_transfer_bytes >= sentBytes)
})
