/*
 * Snapshots of a running branch, branches made of them, and deleted branches that are recovered: each from the request
 * until the snapshot is taken, or until the first row.
 */
import { query } from '../test/clients.ts'
import type { Neap } from '../test/neap.ts'
import { branchOff, firstPlace, type Place } from '../test/project.ts'
import { startWithClones } from './load/clones.ts'
import { percentile, report } from './samples.ts'

const ROUNDS = Number(process.argv[2] ?? 10)
/** MiB of data. */
const DATA_MIB = Number(process.argv[3] ?? 10)

const taken: number[] = []
const restored: number[] = []
const recovered: number[] = []

async function rowsOf(neap: Neap, place: Place, endpoint_id = place.endpoint_id): Promise<void> {
  await query(neap, place.uri.replace(place.endpoint_id, endpoint_id), 'select count(*) from data')
}

async function takeAndRestore(neap: Neap, place: Place): Promise<void> {
  const { project_id, branch_id } = place
  await query(neap, place.uri, 'insert into data values ($$changed$$)')
  const asked = performance.now()
  const { snapshot, operations } = await neap.call('POST /projects/:project_id/branches/:branch_id/snapshot', {
    params: { project_id, branch_id },
  })
  await neap.ended(operations)
  taken.push(performance.now() - asked)

  const params = { project_id, snapshot_id: snapshot.id }
  const begun = performance.now()
  const made = await neap.call('POST /projects/:project_id/snapshots/:snapshot_id/restore', { params, body: {} })
  const { endpoint } = await neap.call('POST /projects/:project_id/endpoints', {
    params: { project_id },
    body: { endpoint: { branch_id: made.branch.id, type: 'read_write' } },
  })
  await rowsOf(neap, place, endpoint.id)
  restored.push(performance.now() - begun)
  const removed = await neap.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { project_id, branch_id: made.branch.id },
    query: { hard_delete: true },
  })
  const gone = await neap.call('DELETE /projects/:project_id/snapshots/:snapshot_id', { params })
  await neap.ended([...removed.operations, ...gone.operations])
}

async function deleteAndRecover(neap: Neap, place: Place): Promise<void> {
  const { project_id, branch_id } = place
  const params = { project_id, branch_id }
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params })
  await neap.ended(operations)
  const begun = performance.now()
  await neap.call('POST /projects/:project_id/branches/:branch_id/recover', { params })
  await rowsOf(neap, place)
  recovered.push(performance.now() - begun)
}

const neap = await startWithClones(DATA_MIB, { NEAP_BRANCH_RECOVER_HOURS: '168' })
let mode = ''
try {
  mode = (await neap.call('GET /status', {})).hosts[0]?.clone_mode ?? ''
  const place = await firstPlace(neap)
  await query(
    neap,
    place.uri,
    `create table data as select repeat(md5(i::text), 30) as text from generate_series(1, ${DATA_MIB * 1000}) i`,
  )
  const child = await branchOff(neap, place)
  for (let round = 0; round < ROUNDS; round++) {
    await takeAndRestore(neap, place)
    await deleteAndRecover(neap, child)
  }
} finally {
  await neap.stop()
}

report(
  'snapshot',
  [
    `taken:     POST of a snapshot of a running branch of ${DATA_MIB} MiB, until it is taken`,
    'restored:  POST of a branch made of it, and of an endpoint, until the first row',
    'recovered: POST to recover a deleted branch, until the first row of its endpoint',
    `branches are made by ${mode}`,
  ],
  { taken, restored, recovered },
  [{ what: 'recovered p50', value: percentile(recovered, 0.5), most: 1_000, unit: ' ms' }],
)
