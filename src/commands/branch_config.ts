import { type Branch, raiseConfigVersion } from '../catalog/branch.ts'
import { lockConfig } from '../catalog/branch_config.ts'
import { assignChanges, countChanges } from '../catalog/config_change.ts'
import type { Operation } from '../catalog/operation.ts'
import type { Project } from '../catalog/project.ts'
import { AppError } from '../errors.ts'
import { applyConfigOperation } from '../operations/apply_config.ts'
import { requestOperation } from '../operations/request.ts'
import type { CommandContext } from './command.ts'
import { type Look, noteLook } from './look.ts'
import { type BranchId, lockedProject, requireBranch } from './require.ts'

/** Limit of changes that wait for a compute: one start applies them all. */
const MAX_CHANGES = 1_000

/**
 * Locks a branch and its project until the transaction ends, before a change of the branch's roles and databases, and
 * updates their rows from the compute's last reading. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED.
 * @param look the result of `lookAtBranch`
 */
export async function changeableBranch(
  context: CommandContext,
  id: BranchId,
  look: Look | undefined,
): Promise<{ project: Project; branch: Branch }> {
  const { db } = context
  const project = await lockedProject(context, id.project_id)
  const branch = await requireBranch(context, project.id, id.branch_id)
  await lockConfig(db, branch.id)
  if (look) await noteLook(db, branch, look)
  if ((await countChanges(db, branch.id)) >= MAX_CHANGES)
    throw new AppError(
      'NOT_ALLOWED',
      `${MAX_CHANGES} changes of this branch's roles and databases wait for its compute. ` +
        'Start its endpoint, then go on.',
    )
  return { project, branch }
}

/** Queues the apply_config that applies changed roles and databases to the compute. */
export async function queueConfigChanges(
  { db }: CommandContext,
  project: Project,
  branch: Branch,
): Promise<Operation[]> {
  await raiseConfigVersion(db, branch.id)
  const subject = { account_id: project.account_id, project_id: project.id, branch_id: branch.id }
  const operation = await requestOperation(db, applyConfigOperation, subject, {})
  await assignChanges(db, branch.id, operation.id)
  return [operation]
}
