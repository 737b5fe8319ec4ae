import { type Branch, hasChildren, listChildren, markBranchDeleted } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import {
  type DeletionMethod,
  endRecovery,
  findRecoverable,
  keepForRecovery,
  type RecoveryLimits,
} from '../catalog/branch_recovery.ts'
import { findBranchEndpoint } from '../catalog/endpoint.ts'
import { cancelUnbegun, type Operation, unfinishedOperations } from '../catalog/operation.ts'
import { AppError } from '../errors.ts'
import { deleteTimeline } from '../operations/delete_timeline.ts'
import { requestOperation } from '../operations/request.ts'
import { limitsOf } from './account_limits.ts'
import type { ChangedBranch } from './changed.ts'
import type { CommandContext } from './command.ts'
import { removeEndpoint } from './delete_endpoint.ts'
import { type BranchId, lockedProject, requireBranch } from './require.ts'

/**
 * Deletes a branch with its endpoint. Unless it is to be `final`, it can be recovered for some time; `final`
 * also removes one that is deleted already.
 * Errors: NOT_FOUND, LOCKED, NOT_ALLOWED.
 */
export async function deleteBranch(context: CommandContext, id: BranchId, final = false): Promise<ChangedBranch> {
  const { db } = context
  const project = await lockedProject(context, id.project_id, { relieves: true })
  const deleted = final ? await findRecoverable(db, project.id, id.branch_id) : undefined
  if (deleted) {
    await endRecovery(db, deleted.id)
    return { branch: deleted, operations: [await queueRemoval(db, deleted)] }
  }
  const branch = await requireBranch(context, project.id, id.branch_id)
  if (branch.is_default)
    throw new AppError(
      'NOT_ALLOWED',
      'cannot delete the default branch; delete the project, or make another branch the default first',
    )
  if (branch.protected) throw new AppError('NOT_ALLOWED', 'cannot delete a protected branch')
  if (await hasChildren(db, branch.id)) throw await hasChildrenError(context, branch)
  const limits = { hours: final ? 0 : context.config.branchRecoverHours, most: limitsOf(context).branches }
  const operations = await removeBranch(db, branch, { ...limits, method: 'user' })
  return { branch: (await findRecoverable(db, project.id, branch.id)) ?? branch, operations }
}

/** So many children are named. */
const NAMED = 5

async function hasChildrenError({ db }: CommandContext, branch: Branch): Promise<AppError> {
  const children = await listChildren(db, branch.id, NAMED + 1)
  const named = children.slice(0, NAMED).map(({ id, name }) => (name === id ? id : `${name} (${id})`))
  const all = [...named, ...(children.length > NAMED ? ['others'] : [])].join(', ')
  const which = all === '' ? 'a restore of it is under way' : `${all}; delete them first`
  return new AppError('NOT_ALLOWED', `cannot delete branch that has children: ${which}`)
}

/**
 * Deletes a branch with its endpoint, and cancels its operations that have not begun. Queues the removal of its data,
 * unless it can be recovered. Call with the project locked.
 * @returns the operations that this queued
 */
export async function removeBranch(
  tx: Db,
  branch: Branch,
  recovery?: RecoveryLimits & { readonly method: DeletionMethod },
): Promise<Operation[]> {
  const { id, project_id } = branch
  const before = await unfinishedOperations(tx, id)
  await cancelUnbegun(tx, project_id, { branchId: id }, 'the branch was deleted')
  await markBranchDeleted(tx, id)
  const isKept = recovery !== undefined && recovery.hours > 0 && branch.current_state !== 'init' && !branch.restores
  if (isKept) await keepForRecovery(tx, branch, recovery, recovery.method)
  const endpoint = await findBranchEndpoint(tx, id)
  if (endpoint) await removeEndpoint(tx, endpoint)
  if (!isKept) await queueRemoval(tx, branch)
  const known = new Set(before.map((operation) => operation.id))
  return (await unfinishedOperations(tx, id)).filter((operation) => !known.has(operation.id))
}

const queueRemoval = (tx: Db, { id, account_id, project_id }: Branch): Promise<Operation> =>
  requestOperation(tx, deleteTimeline, { account_id, project_id, branch_id: id }, {})
