import { type Branch, hasChildren, markBranchDeleted } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { findBranchEndpoint } from '../catalog/endpoint.ts'
import { cancelUnbegun, type Operation, unfinishedOperations } from '../catalog/operation.ts'
import { AppError } from '../errors.ts'
import { deleteTimeline } from '../operations/delete_timeline.ts'
import { requestOperation } from '../operations/request.ts'
import type { ChangedBranch } from './changed.ts'
import type { CommandContext } from './command.ts'
import { removeEndpoint } from './delete_endpoint.ts'
import { type BranchId, lockedProject, requireBranch } from './require.ts'

/** Deletes a branch, its endpoint and its data. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED. */
export async function deleteBranch(context: CommandContext, id: BranchId): Promise<ChangedBranch> {
  const { db } = context
  const project = await lockedProject(context, id.project_id, { relieves: true })
  const branch = await requireBranch(context, project.id, id.branch_id)
  if (branch.is_default)
    throw new AppError(
      'NOT_ALLOWED',
      'cannot delete the default branch; delete the project, or make another branch the default first',
    )
  if (branch.protected) throw new AppError('NOT_ALLOWED', 'cannot delete a protected branch')
  if (await hasChildren(db, branch.id)) throw new AppError('NOT_ALLOWED', 'cannot delete branch that has children')
  return { branch, operations: await removeBranch(db, branch) }
}

/**
 * Deletes a branch with its endpoint, cancels its operations that have not begun, and queues the removal of its data.
 * Call with the project locked.
 * @returns the operations that this queued
 */
export async function removeBranch(tx: Db, branch: Branch): Promise<Operation[]> {
  const { id, account_id, project_id } = branch
  const before = await unfinishedOperations(tx, id)
  await cancelUnbegun(tx, project_id, { branchId: id }, 'the branch was deleted')
  await markBranchDeleted(tx, id)
  const endpoint = await findBranchEndpoint(tx, id)
  if (endpoint) await removeEndpoint(tx, endpoint)
  await requestOperation(tx, deleteTimeline, { account_id, project_id, branch_id: id }, {})
  const known = new Set(before.map((operation) => operation.id))
  return (await unfinishedOperations(tx, id)).filter((operation) => !known.has(operation.id))
}
