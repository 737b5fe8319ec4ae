import { setBranchFailed } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { findEndpointEver, setPendingState } from '../catalog/endpoint.ts'
import { cancelOperation, type Operation, unfinishedOperations } from '../catalog/operation.ts'
import { AppError } from '../errors.ts'

/**
 * Cancels an operation that was never begun, and leaves what it was about in an honest state. What depends on it fails in its turn.
 * Call with the project locked. Errors: CONFLICT when it has begun or ended, or removes what is deleted already.
 */
export async function cancel(tx: Db, operation: Operation): Promise<Operation> {
  const { id, action, status, branch_id, endpoint_id } = operation
  if (action.startsWith('delete_'))
    throw new AppError('CONFLICT', `${action} cannot be cancelled: what it removes is deleted already.`)
  const cancelled = await cancelOperation(tx, id, 'by request')
  const hasJustBegun = status === 'scheduling'
  if (!cancelled)
    throw new AppError(
      'CONFLICT',
      `The operation is ${hasJustBegun ? 'running' : status}; only one that has not begun can be cancelled.`,
    )
  if (branch_id && action.startsWith('create_')) await setBranchFailed(tx, branch_id)
  if (endpoint_id) await settlePending(tx, endpoint_id)
  return cancelled
}

/** An endpoint is on its way to where the last of its operations that are left will bring it. */
export async function settlePending(tx: Db, endpointId: string): Promise<void> {
  const endpoint = await findEndpointEver(tx, endpointId)
  if (!endpoint) return
  const moves = (await unfinishedOperations(tx, endpoint.branch_id)).filter(
    ({ endpoint_id }) => endpoint_id === endpointId,
  )
  const last = moves.findLast(({ action }) => action === 'start_compute' || action === 'suspend_compute')
  await setPendingState(tx, endpointId, last ? (last.action === 'start_compute' ? 'active' : 'idle') : null)
}
