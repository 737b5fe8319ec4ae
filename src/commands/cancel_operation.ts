import { setBranchFailed } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { cancelOperation, isOfMove, type Operation, type OperationStatus } from '../catalog/operation.ts'
import { forgetSnapshotOf } from '../catalog/snapshot.ts'
import { AppError } from '../errors.ts'

/**
 * Cancels an operation that has not begun. A branch whose creation is cancelled becomes failed; dependent operations
 * fail. Call with the project locked.
 * Errors: CONFLICT (it has begun or ended, removes deleted data, or stops a compute on a branch that its endpoint has
 * left).
 */
export async function cancel(tx: Db, operation: Operation): Promise<Operation> {
  const { id, action, status, branch_id } = operation
  const refusal = whyNotCancelled(action, 'scheduling', await isOfMove(tx, id))
  if (refusal !== undefined) throw new AppError('CONFLICT', refusal)
  const cancelled = await cancelOperation(tx, id, 'by request')
  const hasJustBegun = status === 'scheduling'
  if (!cancelled) throw new AppError('CONFLICT', begunText(hasJustBegun ? 'running' : status))
  if (branch_id && action.startsWith('create_')) {
    await setBranchFailed(tx, branch_id)
    await forgetSnapshotOf(tx, branch_id)
  }
  return cancelled
}

/** Why an operation cannot be cancelled now; undefined: it can. */
export function whyNotCancelled(action: string, status: OperationStatus, isMove: boolean): string | undefined {
  if (action.startsWith('delete_')) return `${action} cannot be cancelled: what it removes is deleted already.`
  if (isMove) return 'suspend_compute cannot be cancelled: its endpoint has moved to another branch.'
  return status === 'scheduling' ? undefined : begunText(status)
}

const begunText = (status: OperationStatus) =>
  `The operation is ${status}; only one that has not begun can be cancelled.`
