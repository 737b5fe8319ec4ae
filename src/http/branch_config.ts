import type { Static } from 'typebox'
import { type Branch, raiseConfigVersion } from '../catalog/branch.ts'
import { agreesWith, lockConfig, type SeenConfig } from '../catalog/branch_config.ts'
import { assignChanges, countChanges } from '../catalog/config_change.ts'
import type { Project } from '../catalog/project.ts'
import { AppError } from '../errors.ts'
import { applyConfigOperation } from '../operations/apply_config.ts'
import { lookAtConfig, noteLook } from '../operations/config.ts'
import { requestOperation } from '../operations/request.ts'
import { lockedProject, requireBranch, requireProject } from './require.ts'
import type { RequestContext } from './route.ts'
import { type Operation, presentOperation } from './routes/operations.ts'

interface BranchParams {
  readonly project_id: string
  readonly branch_id: string
}

/** More than anybody waits with: a start makes them all. */
const MAX_CHANGES = 1_000

/**
 * The caller's branch, with its roles and databases in the catalog as Postgres has them now, where its compute runs and answers soon,
 * and what that said. One that sleeps is not woken. Errors: NOT_FOUND.
 */
export async function readBranch(
  context: RequestContext,
  params: BranchParams,
): Promise<{ branch: Branch; seen: SeenConfig | undefined }> {
  await requireProject(context, params.project_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  const look = await lookAtConfig(context, context.db, branch)
  if (look && !(await agreesWith(context.db, branch.id, look.seen)))
    await context.catalog.transaction((tx) => noteLook(tx, branch, look))
  return { branch, seen: look?.seen }
}

/** The same for a request that changes them: both are locked until its transaction ends. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED. */
export async function changeableBranch(
  context: RequestContext,
  params: BranchParams,
): Promise<{ project: Project; branch: Branch }> {
  const { db } = context
  await requireProject(context, params.project_id)
  // Asked first, since nobody else should have to wait for the answer.
  const look = await lookAtConfig(context, db, await requireBranch(context, params.project_id, params.branch_id))
  const project = await lockedProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  await lockConfig(db, branch.id)
  if (look) await noteLook(db, branch, look)
  if ((await countChanges(db, branch.id)) >= MAX_CHANGES)
    throw new AppError(
      'NOT_ALLOWED',
      `${MAX_CHANGES} changes of this branch's roles and databases wait for its compute. Start its endpoint, then go on.`,
    )
  return { project, branch }
}

/** Queues the apply_config that makes what was changed real. Answers the operations of the reply. */
export async function queueChanges(
  { db }: RequestContext,
  project: Project,
  branch: Branch,
): Promise<Static<typeof Operation>[]> {
  await raiseConfigVersion(db, branch.id)
  const subject = { account_id: project.account_id, project_id: project.id, branch_id: branch.id }
  const operation = await requestOperation(db, applyConfigOperation, subject, {})
  await assignChanges(db, branch.id, operation.id)
  return [presentOperation(operation)]
}
