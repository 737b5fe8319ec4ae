/* Another tenant's wake while one has copies that stand still and a long queue. */
import { catalogQuery } from '../test/admin.ts'
import { connect } from '../test/clients.ts'
import { startNeap } from '../test/neap.ts'
import { firstPlace, newProject, type Place, suspend } from '../test/project.ts'
import { awaitCopies, freezeCheckpointer } from '../test/stuck_copies.ts'
import { percentile, report } from './samples.ts'

const [copies = 200, queued = 20_000, rounds = 40] = process.argv.slice(2).map(Number)
/** Copies that the host makes at once: half of them for one project. */
const COPIES = 8

const alone: number[] = []
const beside: number[] = []
const neap = await startNeap({
  env: { NEAP_BRANCHES_LIMIT: '1000', NEAP_OPERATIONS_LIMIT: '100000', NEAP_COPIES: String(COPIES) },
})
try {
  const hostile = await firstPlace(neap)
  const other = await newProject(neap)
  const client = await connect(neap, hostile.uri)
  await wake(other, alone)
  const thaw = await freezeCheckpointer(neap, hostile)
  try {
    const { project_id, branch_id } = hostile
    let last = ''
    for (let count = 0; count < copies; count++) {
      const body = { branch: { parent_id: branch_id } }
      const { branch } = await neap.call('POST /projects/:project_id/branches', { params: { project_id }, body })
      last = branch.id
    }
    await awaitCopies(neap, hostile, Math.min(copies, COPIES / 2))
    await fill(project_id, last)
    await wake(other, beside)
    // So many operations take long to end: they are cancelled with their project.
    await neap.call('DELETE /projects/:project_id', { params: { project_id } })
  } finally {
    thaw()
  }
  await client.end()
} finally {
  await neap.stop()
}

/** Queues changes behind the copy of a branch, in one transaction for each hundred, as many requests would. */
async function fill(projectId: string, branchId: string): Promise<void> {
  const STEP = 100
  for (let count = 0; count < queued; count += STEP)
    await catalogQuery(
      neap,
      `with p as (
         update project set last_seq = last_seq + ${STEP}, last_operation_at = clock_timestamp() + interval '1 ms'
          where id = $1 returning last_seq - ${STEP} as seq, clock_timestamp() as at)
       insert into operation (id, seq, account_id, project_id, branch_id, action, status, input, step, excludes, shares,
                              passes_shared, depends_on, deadline_seconds, created_at, host_id)
       select gen_random_uuid(), p.seq + n, account_id, project_id, branch_id, 'apply_config', 'scheduling', '{}',
              'config_applied', excludes, array[$1], true, '{}', 120, p.at + n * interval '1 microsecond', host_id
         from operation o, p, generate_series(1, ${STEP}) n
        where project_id = $1 and branch_id = $2 and action = 'create_branch'`,
      [projectId, branchId],
    )
}

async function wake(place: Place, samples: number[]): Promise<void> {
  for (let round = 0; round <= rounds; round++) {
    await suspend(neap, place)
    const begun = performance.now()
    const client = await connect(neap, place.uri)
    await client.query('select 1')
    // The first one warms the code.
    if (round > 0) samples.push(performance.now() - begun)
    await client.end()
  }
}

report(
  'fairness',
  [
    `suspended endpoint → first row of select 1, fresh connection by the proxy with TLS and SCRAM, ${rounds} times`,
    `alone: nothing else runs; beside: another project has ${copies} copies that stand still, ${COPIES / 2} begun, ` +
      `and ${queued} operations queued on one branch`,
  ],
  { alone, beside },
  [
    {
      what: 'p95, beside / alone',
      value: percentile(beside, 0.95) / percentile(alone, 0.95),
      most: 1.5,
      unit: '×',
    },
  ],
)
