import type { BranchRef, Fence } from '../backends/backend.ts'
import { findStoredBranch, listMakings, type StoredBranch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { insertOperation, type Operation } from '../catalog/operation.ts'
import type { WorkerContext } from '../context.ts'
import { type Claimed, type Definition, OperationFailed } from '../engine/definition.ts'

/** What an operation is about. */
export interface Subject {
  readonly account_id: string
  readonly project_id: string
  readonly branch_id?: string
  readonly endpoint_id?: string
}

/** What an operation takes alone (`excludes`) and together with others (`shares`): ids of branches and projects. */
export interface Locks {
  readonly excludes: readonly string[]
  readonly shares?: readonly string[]
  /** It need not wait for those that only share what it takes alone: a start does not wait for a copy. */
  readonly passesShared?: boolean
}

/** An action of the control plane: what the engine must know, and what it locks. */
export interface Action<Input = never> extends Definition<WorkerContext, Input> {
  readonly locks: (subject: Subject, input: Input) => Locks
  /** Fails when the making of the branches it locks fails. */
  readonly needsBranches: boolean
}

/**
 * Queues an operation behind all that its project already has. Call in the transaction that changes the resources.
 * @param needs operations without whose success this one is to fail, beside those that make the data of its branches
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
  const makings = action.needsBranches ? await listMakings(tx, branchIds([...branches])) : []
  const wholeProject = locks.excludes.includes(subject.project_id)
  return insertOperation(tx, {
    ...subject,
    action: action.action,
    input,
    step: Object.keys(action.steps)[0] as string,
    excludes: locks.excludes,
    shares: [...(wholeProject ? [] : [subject.project_id]), ...(locks.shares ?? [])],
    passes_shared: locks.passesShared ?? false,
    depends_on: [...makings, ...needs.map(({ id }) => id)],
    deadline_seconds: action.deadlineSeconds,
  })
}

function branchIds(ids: readonly (string | undefined)[]): string[] {
  return ids.filter((id): id is string => id?.startsWith('br-') ?? false)
}

/** The branch of an operation as its backend knows it. */
export async function branchOf(tx: Db, operation: Claimed): Promise<StoredBranch> {
  const branch = operation.branch_id ? await findStoredBranch(tx, operation.branch_id) : undefined
  if (!branch) throw new OperationFailed(`branch ${operation.branch_id} is gone`)
  return branch
}

/** What a backend knows of a branch is where its data lies. */
export const refOf = (branch: StoredBranch): BranchRef => ({
  id: branch.store_id,
  number: branch.store_number,
  pgVersion: branch.pg_version,
})

export const fenceOf = (operation: Claimed): Fence => ({ seq: operation.seq, generation: operation.generation })
