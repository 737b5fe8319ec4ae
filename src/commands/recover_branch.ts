import type { Branch } from '../catalog/branch.ts'
import { findRecoverable, recoverBranch as recoverBranchRow } from '../catalog/branch_recovery.ts'
import { type Endpoint, findBranchEndpoint, lockEndpoint, setPause } from '../catalog/endpoint.ts'
import { unfinishedOperations } from '../catalog/operation.ts'
import { AppError } from '../errors.ts'
import { suspendCompute } from '../operations/suspend_compute.ts'
import type { CommandContext } from './command.ts'
import { type BranchId, lockedProject, requireFreeBranchName, requireRoomForBranch } from './require.ts'

/** A recovered branch, and its endpoint if it had one. */
export interface RecoveredBranch {
  readonly branch: Branch
  readonly endpoint: Endpoint | undefined
}

/**
 * Takes the deletion of a branch back: it has its id, data, roles, passwords and endpoint as before, and expires no
 * more. Where its parent was removed meanwhile it has none.
 * Errors: NOT_FOUND (it cannot be recovered), LOCKED, NOT_ALLOWED (its parent is to be recovered first),
 * BRANCH_ALREADY_EXISTS, BRANCHES_LIMIT_EXCEEDED.
 */
export async function recoverBranch(
  context: CommandContext,
  { project_id, branch_id }: BranchId,
): Promise<RecoveredBranch> {
  const { db } = context
  await lockedProject(context, project_id)
  const deleted = await findRecoverable(db, project_id, branch_id)
  if (!deleted) throw new AppError('NOT_FOUND', `branch ${branch_id} not found among those that can be recovered`)
  const parent = deleted.parent_id && (await findRecoverable(db, project_id, deleted.parent_id))
  if (parent)
    throw new AppError(
      'NOT_ALLOWED',
      `Its parent ${parent.name} (${parent.id}) is deleted too. Recover that first, or delete it for good.`,
    )
  await requireFreeBranchName(context, project_id, deleted.name)
  await requireRoomForBranch(context, project_id)
  const branch = await recoverBranchRow(db, deleted)
  const recovered = await findBranchEndpoint(db, branch_id)
  const endpoint = recovered && (await lockEndpoint(db, recovered.id))
  if (endpoint) {
    // Its compute may still stop: clients wait for that, as it would end their sessions.
    const unfinished = await unfinishedOperations(db, branch_id, endpoint.id)
    const stop = unfinished.find(({ action }) => action === suspendCompute.action)
    if (stop) await setPause(db, endpoint.id, stop.id)
  }
  return { branch, endpoint }
}
