import type { RunningCompute } from '../compute/compute.ts'
import { listArchived } from '../catalog/archived_branch.ts'
import { findStoredBranch, type StoredBranch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import type { NewCompute } from '../catalog/compute.ts'
import { insertOperation, type Operation } from '../catalog/operation.ts'
import { giveUid } from '../catalog/store_uid.ts'
import type { WorkerContext } from '../context.ts'
import type { Fence } from '../host/fence.ts'
import type { StoreRef } from '../storage/storage.ts'
import { type Claimed, type Definition, OperationFailed, waitUntil } from '../engine/definition.ts'

/** The resources that an operation concerns. */
export interface Subject {
  readonly account_id: string
  readonly project_id: string
  readonly branch_id?: string
  readonly endpoint_id?: string
}

/** The locks of an operation, exclusive (`excludes`) and shared (`shares`): ids of branches and projects. */
export interface Locks {
  readonly excludes: readonly string[]
  readonly shares?: readonly string[]
  /** Does not wait for shared locks on what it excludes: only the removal of a branch waits for its copies. */
  readonly passesShared?: boolean
}

/** An action of the control plane: its definition for the engine, and its locks. */
export interface Action<Input = never> extends Definition<WorkerContext, Input> {
  readonly locks: (subject: Subject, input: Input) => Locks
  /** Fails when the creation of a branch that it locks fails. */
  readonly needsBranches: boolean
}

/**
 * Queues an operation behind all that its project already has. Call in the transaction that changes the resources.
 * Archived branches whose data it needs are brought back before it.
 * @param needs operations that it depends on, besides those that create its branches: it fails when one of them fails
 */
export async function requestOperation<Input extends object>(
  tx: Db,
  action: Action<Input>,
  subject: Subject,
  input: Input,
  needs: readonly Operation[] = [],
): Promise<Operation> {
  const locks = action.locks(subject, input)
  const branches = new Set([subject.branch_id, ...locks.excludes, ...(locks.shares ?? [])])
  if (action.needsBranches) await bringBack(tx, branchIds([...branches]))
  const wholeProject = locks.excludes.includes(subject.project_id)
  return insertOperation(tx, {
    ...subject,
    action: action.action,
    input,
    step: Object.keys(action.steps)[0] as string,
    excludes: locks.excludes,
    shares: [...(wholeProject ? [] : [subject.project_id]), ...(locks.shares ?? [])],
    passes_shared: locks.passesShared ?? false,
    depends_on: needs.map(({ id }) => id),
    needed_branches: action.needsBranches ? branchIds([...branches]) : [],
    deadline_seconds: action.deadlineSeconds,
  })
}

/** The operation that brings an archived branch back (timeline_unarchive.ts). */
export const UNARCHIVE = { action: 'timeline_unarchive', step: 'data_unpacked', deadline_seconds: 6 * 3600 } as const

/** Has archived branches brought back. Operations that need their data find these operations by their branches. */
export async function bringBack(tx: Db, ids: readonly string[]): Promise<void> {
  for (const { id: branch_id, account_id, project_id } of await listArchived(tx, ids))
    await insertOperation(tx, {
      ...UNARCHIVE,
      account_id,
      project_id,
      branch_id,
      input: {},
      excludes: [branch_id],
      shares: [project_id],
      passes_shared: true,
      depends_on: [],
    })
}

function branchIds(ids: readonly (string | undefined)[]): string[] {
  return ids.filter((id): id is string => id?.startsWith('br-') ?? false)
}

/** The branch of an operation, with its store. */
export async function branchOf(tx: Db, operation: Claimed): Promise<StoredBranch> {
  const branch = operation.branch_id ? await findStoredBranch(tx, operation.branch_id) : undefined
  if (!branch) throw new OperationFailed(`branch ${operation.branch_id} is gone`)
  return branch
}

/** A host knows a branch by its store. */
export const refOf = (branch: StoredBranch): StoreRef => ({
  id: branch.store_id,
  number: branch.store_number,
  uid: branch.store_uid,
  pgVersion: branch.pg_version,
})

/**
 * A branch for its host, with a uid where computes run as users of their own. Errors: all uids of the host are given;
 * the step is tried again.
 */
export async function ownedRefOf({ catalog, hostId, uids }: WorkerContext, branch: StoredBranch): Promise<StoreRef> {
  if (branch.store_uid !== null || !uids) return refOf(branch)
  const uid = await giveUid(catalog, hostId, branch.store_id, { ...uids, first: uids.first + 1 })
  if (uid === undefined)
    throw new Error(
      `The host ${hostId} has stores with all of its uids, ${uids.first}-${uids.last}: ` +
        'name a larger range in NEAP_UIDS and start Neap again, or delete branches.',
    )
  return { ...refOf(branch), uid }
}

/** A running compute as the catalog records it. */
export const placedCompute = ({ id, hostId, address, startedAt }: RunningCompute): NewCompute => ({
  id,
  hostId,
  ...address,
  startedAt,
})

export const fenceOf = ({ epoch, seq, generation }: Claimed): Fence => ({ epoch, seq, generation })

/** Stops the server on a branch's data. Returns the wait for its end; undefined when it has ended. */
export async function stopCompute(
  { computes }: Pick<WorkerContext, 'computes'>,
  operation: Claimed,
  branch: StoredBranch,
): Promise<ReturnType<typeof waitUntil> | undefined> {
  const store = refOf(branch)
  const progress = await computes.stop(store, fenceOf(operation))
  return progress === 'pending' ? waitUntil(computes.settled(store), 'Postgres is stopping') : undefined
}
