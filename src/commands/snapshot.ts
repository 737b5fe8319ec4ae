import { type Branch, findBranch, insertBranch } from '../catalog/branch.ts'
import { copyRolesAndDatabases, takePasswords } from '../catalog/branch_config.ts'
import { findRecoverable } from '../catalog/branch_recovery.ts'
import type { Operation } from '../catalog/operation.ts'
import { lockProject } from '../catalog/project.ts'
import {
  findSnapshot,
  forgetSnapshotOf,
  insertSnapshot,
  listExpiredSnapshots,
  type NewSnapshot as InsertedSnapshot,
  type Snapshot,
  snapshotBranch,
  updateSnapshot,
} from '../catalog/snapshot.ts'
import type { Db } from '../catalog/catalog.ts'
import { AppError } from '../errors.ts'
import { newBranchId, newSnapshotId } from '../ids.ts'
import { createBranch } from '../operations/create_branch.ts'
import type { StoreMoment } from '../operations/moment.ts'
import { requestOperation } from '../operations/request.ts'
import { changeableBranch } from './branch_config.ts'
import type { ChangedBranch } from './changed.ts'
import type { CommandContext } from './command.ts'
import { removeBranch } from './delete_branch.ts'
import { type Look, lookAtBranch } from './look.ts'
import { requireMoment } from './moment.ts'
import {
  type BranchId,
  lockedProject,
  requireBranch,
  requireDiskForCopy,
  requireFreeBranchName,
  requireFuture,
  requireOpen,
  requireRoomForBranch,
  requireData,
} from './require.ts'
import { replaceData } from './restore_branch.ts'

export interface SnapshotId {
  readonly project_id: string
  readonly snapshot_id: string
}

/** A request for a snapshot. */
export interface AskedSnapshot {
  readonly name?: string
  readonly timestamp?: string
  readonly lsn?: string
  readonly expires_at?: string
}

export interface ChangedSnapshot {
  readonly snapshot: Snapshot
  readonly operations: readonly Operation[]
}

/**
 * Takes a snapshot of a branch, as it is now or was at a moment.
 * @param look the result of `lookAtBranch`
 * Errors: NOT_FOUND, LOCKED, NOT_ALLOWED, INVALID_REQUEST.
 */
export async function takeSnapshot(
  context: CommandContext,
  id: BranchId,
  { name, timestamp, lsn, expires_at }: AskedSnapshot,
  look: Look | undefined,
): Promise<ChangedSnapshot> {
  const { db } = context
  const { branch: source, project } = await changeableBranch(context, id, look)
  requireData(source)
  await requireOpen(context, source)
  await requireDiskForCopy(context, source.id)
  const moment = await requireMoment(context, project, source, { timestamp, lsn }, look)
  return queueSnapshot(db, source, {
    name,
    moment,
    expires_at: expires_at === undefined ? null : requireFuture('expires_at', expires_at),
    is_scheduled: false,
    timestamp,
    lsn,
  })
}

interface QueuedSnapshot extends Pick<InsertedSnapshot, 'expires_at' | 'is_scheduled' | 'timestamp' | 'lsn'> {
  readonly name: string | undefined
  readonly moment?: StoreMoment | undefined
}

/** Inserts a snapshot, and queues the operation that makes it. Call with the project locked. */
export async function queueSnapshot(
  tx: Db,
  source: Branch,
  { name, moment, ...attributes }: QueuedSnapshot,
): Promise<ChangedSnapshot> {
  const id = newSnapshotId()
  const branch_id = newBranchId()
  const store_id = moment?.store_id ?? source.store_id
  const snapshot = await insertSnapshot(tx, { id, branch_id, source, name: name ?? id, store_id, ...attributes })
  await copyRolesAndDatabases(tx, source.id, branch_id, { withChanges: !moment })
  const subject = { account_id: source.account_id, project_id: source.project_id, branch_id }
  const input = { parent_id: source.id, ...(moment && { moment }) }
  return { snapshot, operations: [await requestOperation(tx, createBranch, subject, input)] }
}

/** The snapshot of a project, which the caller has checked to be the account's own. Errors: NOT_FOUND. */
async function requireSnapshot({ db }: CommandContext, { project_id, snapshot_id }: SnapshotId): Promise<Snapshot> {
  const snapshot = await findSnapshot(db, project_id, snapshot_id)
  if (!snapshot) throw new AppError('NOT_FOUND', `snapshot ${snapshot_id} not found`)
  return snapshot
}

/** The attributes that a request may change. A null `expires_at` removes the expiry. */
export interface SnapshotChanges {
  readonly name?: string
  readonly expires_at?: string | null
}

/** Renames a snapshot, or says when it is to be removed. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED. */
export async function changeSnapshot(
  context: CommandContext,
  id: SnapshotId,
  { name, expires_at }: SnapshotChanges,
): Promise<Snapshot> {
  await lockedProject(context, id.project_id)
  const { id: found } = await requireSnapshot(context, id)
  await updateSnapshot(context.db, found, {
    name,
    expires_at: expires_at && requireFuture('expires_at', expires_at),
  })
  return requireSnapshot(context, id)
}

/** Removes a snapshot; branches that were made of it stay. Errors: NOT_FOUND, LOCKED. */
export async function deleteSnapshot(context: CommandContext, id: SnapshotId): Promise<readonly Operation[]> {
  await lockedProject(context, id.project_id, { relieves: true })
  return removeSnapshot(context.db, await requireSnapshot(context, id))
}

/** Removes a snapshot that has expired meanwhile. Returns whether it did. */
export async function expireSnapshot(tx: Db, { account_id, project_id, id }: Snapshot): Promise<boolean> {
  if (!(await lockProject(tx, account_id, project_id))) return false
  const [snapshot] = await listExpiredSnapshots(tx, id)
  if (!snapshot) return false
  await removeSnapshot(tx, snapshot)
  return true
}

async function removeSnapshot(tx: Db, snapshot: Snapshot): Promise<Operation[]> {
  const branch = await snapshotBranch(tx, snapshot)
  await forgetSnapshotOf(tx, branch.id)
  return removeBranch(tx, branch)
}

/** A request to restore a snapshot. */
export interface SnapshotRestore {
  readonly name?: string
  readonly target_branch_id?: string
  readonly finalize_restore?: boolean
}

/**
 * Makes a branch of a snapshot, to look at before `finalizeRestore`; with `finalize_restore` the target gets the data
 * at once, and `name` is the name of the branch with its old data. Roles have the passwords of now.
 * @param look the result of `lookAtTarget`
 * Errors: NOT_FOUND, LOCKED, NOT_ALLOWED, BRANCH_ALREADY_EXISTS, BRANCHES_LIMIT_EXCEEDED.
 */
export async function restoreSnapshot(
  context: CommandContext,
  id: SnapshotId,
  { name, target_branch_id, finalize_restore: finalizes }: SnapshotRestore,
  look: Look | undefined,
): Promise<ChangedBranch> {
  const { db } = context
  const project = await lockedProject(context, id.project_id)
  const snapshot = await requireSnapshot(context, id)
  const source = await snapshotBranch(db, snapshot)
  if (finalizes) {
    const target = await requireBranch(context, project.id, target_branch_id ?? snapshot.source_branch_id)
    return replace(context, target, source, name)
  }
  const target_id = target_branch_id ?? snapshot.source_branch_id
  const isThere = target_branch_id !== undefined || (await findBranch(db, project.id, target_id)) !== undefined
  const target = isThere
    ? (await changeableBranch(context, { project_id: project.id, branch_id: target_id }, look)).branch
    : await findRecoverable(db, project.id, target_id)
  const made = newBranchId()
  await requireRoomForBranch(context, project.id)
  await requireFreeBranchName(context, project.id, name ?? made)
  await requireDiskForCopy(context, source.id)
  const branch = await insertBranch(db, {
    id: made,
    name: name ?? made,
    account_id: project.account_id,
    project_id: project.id,
    parent_id: null,
    source_id: source.id,
    is_default: false,
    protected: false,
    expires_at: null,
    restored_from: snapshot.id,
    restored_as: target_id,
  })
  await copyRolesAndDatabases(db, source.id, made)
  if (target) await takePasswords(db, made, target.id)
  const subject = { account_id: project.account_id, project_id: project.id, branch_id: made }
  return { branch, operations: [await requestOperation(db, createBranch, subject, { parent_id: source.id })] }
}

/**
 * Gives the data of a restored branch to its target, whose id, endpoint and passwords stay.
 * @param name of the branch that keeps the old data of the target
 * Errors: NOT_FOUND, LOCKED, NOT_ALLOWED, BRANCH_ALREADY_EXISTS, BRANCHES_LIMIT_EXCEEDED.
 */
export async function finalizeRestore(
  context: CommandContext,
  { project_id, branch_id }: BranchId,
  name: string | undefined,
): Promise<readonly Operation[]> {
  await lockedProject(context, project_id)
  const restored = await requireBranch(context, project_id, branch_id)
  if (restored.restore_status === 'finalized')
    throw new AppError('NOT_ALLOWED', `The branch ${branch_id} has replaced its branch already.`)
  if (restored.restore_status === null || restored.restored_as === null)
    throw new AppError('NOT_ALLOWED', `The branch ${branch_id} was not made by restoring a snapshot.`)
  const target = await requireBranch(context, project_id, restored.restored_as)
  const { operations } = await replace(context, target, restored, name, restored.id)
  return operations
}

/** Reads roles from the compute of the branch that a snapshot is restored for, like `lookAtBranch`. */
export async function lookAtTarget(
  context: CommandContext,
  { project_id, snapshot_id }: SnapshotId,
  asked: string | undefined,
): Promise<Look | undefined> {
  const branch_id = asked ?? (await findSnapshot(context.db, project_id, snapshot_id))?.source_branch_id
  const target = branch_id === undefined ? undefined : await findBranch(context.db, project_id, branch_id)
  return target && lookAtBranch(context, { project_id, branch_id: target.id })
}

/** Characters of a name that the name of a kept branch begins with: a name has 256 at most. */
const MAX_KEPT_NAME = 200

/** Replaces the data of a branch, and keeps the old data under a name. */
async function replace(
  context: CommandContext,
  target: Branch,
  source: Branch,
  name: string | undefined,
  finalizes?: string,
): Promise<ChangedBranch> {
  const keptName = name ?? `${target.name.slice(0, MAX_KEPT_NAME)}_old_${new Date().toISOString()}`
  const replacement = { keptName, keepsPasswords: true, ...(finalizes && { finalizes }) }
  const { branch, operations } = await replaceData(context, target, source, replacement)
  return { branch: source.deleted_at === null ? branch : { ...branch, parent_id: null }, operations }
}
