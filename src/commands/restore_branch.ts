import { type Branch, findBranch, hasChildren, renewExpiry } from '../catalog/branch.ts'
import { copyRolesAndDatabases } from '../catalog/branch_config.ts'
import { countCopies } from '../catalog/branch_limit.ts'
import type { Db } from '../catalog/catalog.ts'
import { type Endpoint, findBranchEndpoint, lockEndpoint } from '../catalog/endpoint.ts'
import { lastMove, type Operation } from '../catalog/operation.ts'
import { insertCopy } from '../catalog/restore.ts'
import { AppError } from '../errors.ts'
import { newBranchId } from '../ids.ts'
import { createBranch as createBranchAction, type CreateBranchInput } from '../operations/create_branch.ts'
import { deleteTimeline } from '../operations/delete_timeline.ts'
import type { StoreMoment } from '../operations/moment.ts'
import { requestOperation } from '../operations/request.ts'
import { queueStart, subjectOf } from '../operations/start_compute.ts'
import { suspendCompute } from '../operations/suspend_compute.ts'
import { changeableBranch } from './branch_config.ts'
import type { ChangedBranch } from './changed.ts'
import { limitsOf } from './account_limits.ts'
import type { CommandContext } from './command.ts'
import { type Look, lookAtBranch } from './look.ts'
import { requireMoment } from './moment.ts'
import {
  type BranchId,
  lockedProject,
  requireBranch,
  requireData,
  requireDiskForCopy,
  requireFreeBranchName,
  requireOpen,
  requireRoomForBranch,
} from './require.ts'

/** A branch in its state after the restore. */
export interface RestoredBranch extends ChangedBranch {
  /** The moment whose data it then has. */
  readonly restoredTo: string
}

export interface RestoreSource {
  readonly source_branch_id: string
  readonly source_lsn?: string
  readonly source_timestamp?: string
  readonly preserve_under_name?: string
}

/**
 * Replaces the data of a branch by the data that another branch has now, or that it or another had at a moment.
 * @param look the result of `lookAtBranch` for the source
 * Errors: NOT_FOUND, LOCKED, NOT_ALLOWED, BRANCH_ALREADY_EXISTS, BRANCHES_LIMIT_EXCEEDED.
 */
export async function restoreBranch(
  context: CommandContext,
  id: BranchId,
  asked: RestoreSource,
  look: Look | undefined,
): Promise<RestoredBranch> {
  const { project_id } = id
  const { source_timestamp, source_lsn, preserve_under_name } = asked
  const { branch: source, project } = await changeableBranch(
    context,
    { project_id, branch_id: asked.source_branch_id },
    look,
  )
  const branch = await requireBranch(context, project_id, id.branch_id)
  const moment = await requireMoment(context, project, source, { source_timestamp, source_lsn }, look)
  return replaceData(context, branch, source, { keptName: preserve_under_name, moment })
}

/**
 * Replaces the data of a branch by the current data of its parent.
 * @param look the result of `lookAtParentOf`
 * Errors: NOT_FOUND, LOCKED, NOT_ALLOWED, BRANCHES_LIMIT_EXCEEDED.
 */
export async function resetBranch(
  context: CommandContext,
  { project_id, branch_id }: BranchId,
  look: Look | undefined,
): Promise<RestoredBranch> {
  await lockedProject(context, project_id)
  const branch = await requireBranch(context, project_id, branch_id)
  if (branch.parent_id === null)
    throw new AppError('NOT_ALLOWED', `The branch ${branch_id} is a root branch: it has no parent to reset it to.`)
  const { branch: parent } = await changeableBranch(context, { project_id, branch_id: branch.parent_id }, look)
  const reset = await replaceData(context, branch, parent, {})
  return { ...reset, branch: { ...reset.branch, ...(await renewExpiry(context.db, branch.id)) } }
}

/** Reads roles and databases from the compute of a branch's parent, like `lookAtBranch`. */
export async function lookAtParentOf(
  context: CommandContext,
  { project_id, branch_id }: BranchId,
): Promise<Look | undefined> {
  const parent_id = (await findBranch(context.db, project_id, branch_id))?.parent_id
  return parent_id ? lookAtBranch(context, { project_id, branch_id: parent_id }) : undefined
}

/** How the data of a branch are replaced. */
interface Replacement {
  /** The name of the branch that keeps the old data; undefined: they are removed. */
  readonly keptName?: string | undefined
  readonly moment?: StoreMoment | undefined
  /** Roles have the passwords that the branch's roles of the same name have when its data are replaced. */
  readonly keepsPasswords?: boolean
  /** The branch made of a snapshot that has replaced the branch then. */
  readonly finalizes?: string
}

/**
 * Replaces the data of a branch by those of another. Errors: NOT_ALLOWED, BRANCH_ALREADY_EXISTS,
 * BRANCHES_LIMIT_EXCEEDED.
 */
export async function replaceData(
  context: CommandContext,
  branch: Branch,
  source: Branch,
  { keptName, moment, keepsPasswords = false, finalizes }: Replacement,
): Promise<RestoredBranch> {
  const { db } = context
  requireData(branch)
  requireData(source)
  await requireOpen(context, source)
  if (branch.masking_state && branch.id !== source.id)
    throw new AppError(
      'NOT_ALLOWED',
      `The branch ${branch.id} is an anonymized one, and would get data that are not masked: create another instead.`,
    )
  await requireDiskForCopy(context, source.id)
  const itself = branch.id === source.id
  if (keptName === undefined) {
    if (itself) throw new AppError('NOT_ALLOWED', 'A branch is restored from itself: preserve_under_name is required')
    if (await hasChildren(db, branch.id))
      throw new AppError('NOT_ALLOWED', 'Branch has children, preserve_under_name is required')
    if (branch.protected)
      throw new AppError('NOT_ALLOWED', 'The branch is protected: give preserve_under_name to keep its data.')
    await requireRoomForCopy(context, branch.project_id)
  } else {
    await requireFreeBranchName(context, branch.project_id, keptName)
    await requireRoomForBranch(context, branch.project_id)
  }
  const exchange = { keeps_passwords: keepsPasswords, finalizes }
  const { copy, operations } = await queueRestore(db, { branch, source, keptName, moment, exchange })
  return {
    // The state after the restore: the row changes in the same transaction as the data.
    branch: { ...branch, parent_id: itself ? copy.id : source.id, updated_at: copy.created_at },
    restoredTo: moment && 'timestamp' in moment.target ? moment.target.timestamp : copy.created_at,
    operations,
  }
}

/**
 * A copy that replaces a branch's data does not count against the quota; this limits copies under way. Errors:
 * BRANCHES_LIMIT_EXCEEDED.
 */
async function requireRoomForCopy(context: CommandContext, projectId: string): Promise<void> {
  const { branches } = limitsOf(context)
  if ((await countCopies(context.db, projectId)) >= branches)
    throw new AppError(
      'BRANCHES_LIMIT_EXCEEDED',
      `The project has ${branches} restores under way, as many as it may. Try again when one has ended.`,
    )
}

interface Restore {
  readonly branch: Branch
  readonly source: Branch
  readonly keptName: string | undefined
  readonly moment?: StoreMoment | undefined
  /** Further input of the operation that replaces the data. */
  readonly exchange?: Pick<CreateBranchInput, 'keeps_passwords' | 'finalizes'>
}

/**
 * Queues the operations that replace a branch's data by the data that its source has when the first of them runs, or
 * had at a moment:
 *
 *   create_branch (a copy) ─▶ suspend_compute ─▶ create_branch (the exchange) ─▶ start_compute ─▶ delete_timeline
 *
 * The suspend and the start are queued only if the endpoint will be active, the removal of the old data only without
 * `keptName`. A running compute serves the old data until its suspend; an idle endpoint wakes only after the exchange.
 * If a step fails before the exchange, the branch keeps its data. A branch restored from itself as it is now already
 * has the right data: a copy of it takes the given name and its place in the tree, and no compute stops.
 * @param keptName name of the branch that keeps the old data; required if the branch has children or is its own source
 */
export async function queueRestore(
  tx: Db,
  { branch, source, keptName, moment, exchange }: Restore,
): Promise<{ copy: Branch; operations: Operation[] }> {
  const copy = await insertCopy(tx, { id: newBranchId(), source, branch, name: keptName, storeId: moment?.store_id })
  await copyRolesAndDatabases(tx, source.id, copy.id, { withChanges: !moment })
  const { account_id, project_id } = branch
  const ofBranch = { account_id, project_id, branch_id: branch.id }
  const ofCopy = { account_id, project_id, branch_id: copy.id }
  const input = { parent_id: source.id, ...(moment && { moment }) }
  const making = await requestOperation(tx, createBranchAction, ofCopy, { ...input, restores: branch.id })
  const operations = [making]
  const found = await findBranchEndpoint(tx, branch.id)
  const endpoint = found && (await lockEndpoint(tx, found.id))
  const exchanges = source.id !== branch.id || moment !== undefined
  const running = endpoint && exchanges && (await willRun(tx, endpoint)) ? endpoint : undefined
  if (running)
    operations.push(
      await requestOperation(tx, suspendCompute, subjectOf(running), { reason: 'request', copy_id: copy.id }, [making]),
    )
  operations.push(await requestOperation(tx, createBranchAction, ofBranch, { ...input, ...exchange, copy_id: copy.id }))
  if (running) operations.push(await queueStart(tx, running, 'request'))
  if (keptName === undefined) operations.push(await requestOperation(tx, deleteTimeline, ofCopy, {}))
  return { copy, operations }
}

/** Whether an endpoint's compute will run after all its queued operations. */
async function willRun(tx: Db, endpoint: Endpoint): Promise<boolean> {
  const last = await lastMove(tx, endpoint)
  return last ? last.action === 'start_compute' : endpoint.current_state === 'active'
}
