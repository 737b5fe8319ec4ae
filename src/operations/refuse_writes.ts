import type { Db } from '../catalog/catalog.ts'
import type { Operation } from '../catalog/operation.ts'
import { decideOnWrites } from '../catalog/size_limit.ts'
import { applyConfigOperation } from './apply_config.ts'
import { requestOperation } from './request.ts'
import { subjectOf } from './start_compute.ts'

/**
 * Lets an endpoint refuse writes, or accept them again, by the size of its branch and the disk of its host. Returns the
 * operation that applies this to its compute, if one runs and something has changed. The project is locked.
 */
export async function decideAndApply(tx: Db, endpointId: string): Promise<Operation | undefined> {
  const endpoint = await decideOnWrites(tx, endpointId)
  if (!endpoint || (endpoint.current_state === 'idle' && endpoint.pending_state === null)) return undefined
  return requestOperation(tx, applyConfigOperation, subjectOf(endpoint), { settings: [] })
}
