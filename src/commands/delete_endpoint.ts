import type { Db } from '../catalog/catalog.ts'
import { deleteEndpointRow, type Endpoint, markEndpointDeleted } from '../catalog/endpoint.ts'
import { cancelUnbegun } from '../catalog/operation.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'
import type { ChangedEndpoint } from './changed.ts'
import type { CommandContext } from './command.ts'
import { type EndpointId, lockedEndpoint } from './require.ts'

/** Deletes an endpoint and cancels its operations that have not begun. Errors: NOT_FOUND, LOCKED. */
export async function deleteEndpoint(context: CommandContext, id: EndpointId): Promise<ChangedEndpoint> {
  const endpoint = await lockedEndpoint(context, id, { relieves: true })
  await cancelUnbegun(context.db, endpoint.project_id, { endpointId: endpoint.id }, 'the endpoint was deleted')
  await removeEndpoint(context.db, endpoint)
  return { endpoint, operations: [] }
}

/** Deletes an endpoint, and queues the suspend of its compute unless it is idle. Call with the project locked. */
export async function removeEndpoint(tx: Db, endpoint: Endpoint): Promise<void> {
  await markEndpointDeleted(tx, endpoint.id)
  // The row of an endpoint that can be recovered with its branch stays.
  if (endpoint.current_state === 'idle' && endpoint.pending_state === null) return deleteEndpointRow(tx, endpoint.id)
  await queueSuspend(tx, endpoint, 'delete')
}
