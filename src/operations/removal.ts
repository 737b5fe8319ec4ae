import { type Branch, markBranchDeleted } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { deleteEndpoint, deleteEndpointRow, type Endpoint, findBranchEndpoint } from '../catalog/endpoint.ts'
import { cancelUnbegun, type Operation, unfinishedOperations } from '../catalog/operation.ts'
import { deleteTimeline } from './delete_timeline.ts'
import { requestOperation } from './request.ts'
import { queueSuspend } from './suspend_compute.ts'

/** Takes an endpoint out of service for ever; its compute is stopped by the operation that this queues. Call with the project locked. */
export async function removeEndpoint(tx: Db, endpoint: Endpoint): Promise<void> {
  await deleteEndpoint(tx, endpoint.id)
  if (endpoint.current_state === 'idle' && endpoint.pending_state === null) return deleteEndpointRow(tx, endpoint.id)
  await queueSuspend(tx, endpoint, 'delete')
}

/**
 * Deletes a branch with its endpoint, cancels what was not begun on it, and queues what removes its data. Call with the project locked.
 * @returns the operations that this queued
 */
export async function removeBranch(tx: Db, branch: Branch): Promise<Operation[]> {
  const { id, account_id, project_id } = branch
  const before = await unfinishedOperations(tx, id)
  await cancelUnbegun(tx, project_id, { branchId: id }, 'the branch was deleted')
  await markBranchDeleted(tx, id)
  const endpoint = await findBranchEndpoint(tx, id)
  if (endpoint) await removeEndpoint(tx, endpoint)
  await requestOperation(tx, deleteTimeline, { account_id, project_id, branch_id: id }, {})
  const known = new Set(before.map((operation) => operation.id))
  return (await unfinishedOperations(tx, id)).filter((operation) => !known.has(operation.id))
}
