import type { WorkerContext } from '../context.ts'
import { findStoredBranch, listLeftovers } from '../catalog/branch.ts'
import { type Endpoint, listEndpointsWithCompute, setActive, setIdle } from '../catalog/endpoint.ts'
import { unfinishedOperations } from '../catalog/operation.ts'
import { deleteTimeline } from '../operations/delete_timeline.ts'
import { refOf, requestOperation } from '../operations/request.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'

/**
 * Makes the catalog and this machine agree again after a crash: computes that run are adopted, computes that are gone are
 * noticed, ones that nobody wants are suspended, files of deleted branches are removed. What an unfinished operation is
 * about is left to that operation. Branches that the catalog does not know are only reported, never touched.
 */
export async function adopt(
  context: WorkerContext,
): Promise<{ adopted: number; gone: number; orphaned: number; leftovers: number }> {
  const { catalog, backend, log } = context
  const found = { adopted: 0, gone: 0, orphaned: 0, leftovers: 0 }
  for (const endpoint of await listEndpointsWithCompute(catalog)) found[await reconcile(context, endpoint)]++
  for (const branch of await listLeftovers(catalog)) {
    await catalog.transaction((tx) => requestOperation(tx, deleteTimeline, { ...branch, branch_id: branch.id }, {}))
    found.leftovers++
  }
  for (const id of await backend.listBranches()) {
    if (!(await findStoredBranch(catalog, id)))
      log.warn({ branch: id }, 'files of a branch that the catalog does not know; left alone')
  }
  return found
}

async function reconcile(
  { catalog, backend }: WorkerContext,
  endpoint: Endpoint,
): Promise<'adopted' | 'gone' | 'orphaned'> {
  const branch = await findStoredBranch(catalog, endpoint.branch_id)
  const compute = branch && (await backend.findCompute(refOf(branch)))
  return catalog.transaction(async (tx) => {
    if ((await unfinishedOperations(tx, endpoint.branch_id)).length > 0) return 'adopted'
    if (!compute) {
      await setIdle(tx, endpoint.id)
      return 'gone'
    }
    if (endpoint.deleted_at || endpoint.disabled || endpoint.current_state !== 'active') {
      await queueSuspend(tx, endpoint, 'request')
      return 'orphaned'
    }
    const { address, pid, startedAt } = compute
    if (pid !== endpoint.compute_pid) await setActive(tx, endpoint.id, { ...address, pid, startedAt })
    return 'adopted'
  })
}
