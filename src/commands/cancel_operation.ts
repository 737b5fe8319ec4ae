import { setBranchFailed } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { cancelOperation, isOfMove, type Operation } from '../catalog/operation.ts'
import { AppError } from '../errors.ts'

/**
 * Cancels an operation that has not begun. A branch whose creation is cancelled becomes failed; dependent operations
 * fail. Call with the project locked.
 * Errors: CONFLICT (it has begun or ended, removes deleted data, or stops a compute on a branch that its endpoint has
 * left).
 */
export async function cancel(tx: Db, operation: Operation): Promise<Operation> {
  const { id, action, status, branch_id } = operation
  if (action.startsWith('delete_'))
    throw new AppError('CONFLICT', `${action} cannot be cancelled: what it removes is deleted already.`)
  if (await isOfMove(tx, id))
    throw new AppError('CONFLICT', 'suspend_compute cannot be cancelled: its endpoint has moved to another branch.')
  const cancelled = await cancelOperation(tx, id, 'by request')
  const hasJustBegun = status === 'scheduling'
  if (!cancelled)
    throw new AppError(
      'CONFLICT',
      `The operation is ${hasJustBegun ? 'running' : status}; only one that has not begun can be cancelled.`,
    )
  if (branch_id && action.startsWith('create_')) await setBranchFailed(tx, branch_id)
  return cancelled
}
