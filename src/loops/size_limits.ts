import { lockEndpoint } from '../catalog/endpoint.ts'
import { lockProject } from '../catalog/project.ts'
import { listGrownOn, listWronglyRefusing } from '../catalog/size_limit.ts'
import type { WorkerContext } from '../context.ts'
import { decideAndApply } from '../operations/refuse_writes.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'

/**
 * Lets computes of this host refuse writes whose branches are over their limit, or all of them while its disk is
 * almost full. A tenant can override that by BEGIN READ WRITE, as to delete; one whose branch grows on is suspended.
 */
export async function limitSizes({ catalog, hostId, log }: WorkerContext): Promise<void> {
  for (const { id, account_id, project_id } of await listWronglyRefusing(catalog, { hostId }))
    await catalog.transaction(async (tx) => {
      if (!(await lockProject(tx, account_id, project_id))) return
      const operation = await decideAndApply(tx, id)
      log.info({ endpoint: id, project: project_id, operation: operation?.id }, 'writes are refused, or no longer')
    })
  for (const { id, account_id, project_id } of await listGrownOn(catalog, hostId))
    await catalog.transaction(async (tx) => {
      if (!(await lockProject(tx, account_id, project_id))) return
      const endpoint = await lockEndpoint(tx, id)
      if (endpoint?.current_state !== 'active' || endpoint.pending_state !== null) return
      await queueSuspend(tx, endpoint, 'request')
      log.info({ endpoint: id, project: project_id }, 'suspends a compute whose branch grows on over its limit')
    })
}
