import type { BranchRef, Fence } from '../backends/backend.ts'
import { type StoredBranch, findStoredBranch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { insertOperation, type Operation, unfinishedOperations } from '../catalog/operation.ts'
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

const MAKING = new Set(['create_timeline', 'create_branch'])

/** Queues an operation behind all that its project already has. Call in the transaction that changes the resources. */
export async function requestOperation<Input extends object>(
  tx: Db,
  action: Action<Input>,
  subject: Subject,
  input: Input,
): Promise<Operation> {
  const locks = action.locks(subject, input)
  const branches = [subject.branch_id, ...locks.excludes, ...(locks.shares ?? [])].filter((id) => id?.startsWith('br-'))
  const dependsOn: string[] = []
  for (const branch of action.needsBranches ? new Set(branches) : []) {
    const unfinished = await unfinishedOperations(tx, branch as string)
    dependsOn.push(...unfinished.filter((operation) => MAKING.has(operation.action)).map((operation) => operation.id))
  }
  const wholeProject = locks.excludes.includes(subject.project_id)
  return insertOperation(tx, {
    ...subject,
    action: action.action,
    input,
    step: Object.keys(action.steps)[0] as string,
    excludes: locks.excludes,
    shares: [...(wholeProject ? [] : [subject.project_id]), ...(locks.shares ?? [])],
    passes_shared: locks.passesShared ?? false,
    depends_on: dependsOn,
    deadline_seconds: action.deadlineSeconds,
  })
}

/** The branch of an operation as its backend knows it. */
export async function branchOf(tx: Db, operation: Claimed): Promise<StoredBranch> {
  const branch = operation.branch_id ? await findStoredBranch(tx, operation.branch_id) : undefined
  if (!branch) throw new OperationFailed(`branch ${operation.branch_id} is gone`)
  return branch
}

export const refOf = (branch: StoredBranch): BranchRef => ({
  id: branch.id,
  number: branch.number,
  pgVersion: branch.pg_version,
})

export const fenceOf = (operation: Claimed): Fence => ({ seq: operation.seq, generation: operation.generation })
