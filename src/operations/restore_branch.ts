import type { Branch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { type Endpoint, findBranchEndpoint, lockEndpoint } from '../catalog/endpoint.ts'
import { type Operation, lastMove } from '../catalog/operation.ts'
import { insertCopy } from '../catalog/restore.ts'
import { copyRolesAndDatabases } from '../catalog/branch_config.ts'
import { newBranchId } from '../ids.ts'
import { createBranch } from './create_branch.ts'
import { deleteTimeline } from './delete_timeline.ts'
import { requestOperation } from './request.ts'
import { queueStart, subjectOf } from './start_compute.ts'
import { suspendCompute } from './suspend_compute.ts'

/**
 * Queues all that gives a branch the data that its source has when the first of it runs:
 *
 *   create_branch (a copy of the source) ─▶ suspend_compute ─▶ create_branch (the exchange) ─▶ start_compute ─▶ delete_timeline
 *
 * The compute is stopped and started only where one runs, and what was there before is removed only without a name for it. Until
 * the exchange a compute that runs serves what the branch holds, and one that sleeps is woken after it; where anything fails before,
 * the branch goes on with what it held. A branch restored from itself holds the right data already: a copy of that takes the given
 * name and its place in the tree, and nothing stops.
 * @param keptName the branch under which the old data stays; needed where the branch has children or is its own source
 */
export async function queueRestore(
  tx: Db,
  { branch, source, keptName }: { branch: Branch; source: Branch; keptName: string | undefined },
): Promise<{ copy: Branch; operations: Operation[] }> {
  const copy = await insertCopy(tx, { id: newBranchId(), source, branch, name: keptName })
  await copyRolesAndDatabases(tx, source.id, copy.id)
  const { account_id, project_id } = branch
  const ofBranch = { account_id, project_id, branch_id: branch.id }
  const ofCopy = { account_id, project_id, branch_id: copy.id }
  const parent_id = source.id
  const making = await requestOperation(tx, createBranch, ofCopy, { parent_id, restores: branch.id })
  const operations = [making]
  const found = await findBranchEndpoint(tx, branch.id)
  const endpoint = found && (await lockEndpoint(tx, found.id))
  const running = endpoint && source.id !== branch.id && (await willRun(tx, endpoint)) ? endpoint : undefined
  if (running)
    operations.push(
      await requestOperation(tx, suspendCompute, { ...subjectOf(running) }, { reason: 'request' }, [making]),
    )
  operations.push(await requestOperation(tx, createBranch, ofBranch, { parent_id, copy_id: copy.id }))
  if (running) operations.push(await queueStart(tx, running, 'request'))
  if (keptName === undefined) operations.push(await requestOperation(tx, deleteTimeline, ofCopy, {}))
  return { copy, operations }
}

/** Whether an endpoint's compute will run when all that is queued for it has been done. */
async function willRun(tx: Db, endpoint: Endpoint): Promise<boolean> {
  const last = await lastMove(tx, endpoint)
  return last ? last.action === 'start_compute' : endpoint.current_state === 'active'
}
