import { type Endpoint, lockEndpoint } from '../catalog/endpoint.ts'
import { lockProject } from '../catalog/project.ts'
import type { WorkerContext } from '../context.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'

/** Suspends a compute for this reason, unless its endpoint has changed. A failure is logged: others go on. */
export async function suspendActive(
  { catalog, log }: WorkerContext,
  { id, account_id, project_id }: Endpoint,
  why: string,
): Promise<void> {
  try {
    await catalog.transaction(async (tx) => {
      if (!(await lockProject(tx, account_id, project_id))) return
      const endpoint = await lockEndpoint(tx, id)
      if (endpoint?.current_state !== 'active' || endpoint.pending_state !== null) return
      await queueSuspend(tx, endpoint, 'request')
      log.info({ endpoint: id, project: project_id }, `suspends a compute because ${why}`)
    })
  } catch (error) {
    log.warn({ err: error, endpoint: id }, 'could not suspend a compute')
  }
}
