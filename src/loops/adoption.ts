import { findBranchOfStore, findStoredBranch, listLeftovers } from '../catalog/branch.ts'
import {
  clearPending,
  deleteEndpointRow,
  type Endpoint,
  findEndpointEver,
  listEndpointsWithCompute,
  listStrandedEndpoints,
  setActive,
  setIdle,
} from '../catalog/endpoint.ts'
import { unfinishedOperations } from '../catalog/operation.ts'
import { lockProject } from '../catalog/project.ts'
import { abandonLostCopies } from '../catalog/restore.ts'
import type { WorkerContext } from '../context.ts'
import { deleteTimeline } from '../operations/delete_timeline.ts'
import { refOf, requestOperation } from '../operations/request.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 60_000

type Found = 'adopted' | 'gone' | 'orphaned'

/**
 * Makes the catalog and this machine agree again after a crash: computes that run are adopted, computes that are gone are
 * noticed, ones that nobody wants are suspended. What an unfinished operation is about is left to that operation. Branches
 * that the catalog does not know are only reported, never touched.
 */
export async function adopt(context: WorkerContext): Promise<Record<Found, number>> {
  const { catalog, backend, log } = context
  const found = await reconcileAll(context, await listEndpointsWithCompute(catalog))
  for (const id of await backend.listBranches()) {
    if (!(await findBranchOfStore(catalog, id)))
      log.warn({ store: id }, 'files of a branch that the catalog does not know; left alone')
  }
  return found
}

/** Looks, at once and then every minute, after what failed operations left: endpoints that are going nowhere, files of deleted branches. */
export function startSweepLoop(context: WorkerContext): Loop {
  const { catalog, log } = context
  const sweep = async (): Promise<void> => {
    await reconcileAll(context, await listStrandedEndpoints(catalog))
    await abandonLostCopies(catalog)
    for (const branch of await listLeftovers(catalog)) {
      const subject = { account_id: branch.account_id, project_id: branch.project_id, branch_id: branch.id }
      const { id } = await catalog.transaction((tx) => requestOperation(tx, deleteTimeline, subject, {}))
      log.warn({ branch: branch.id, operation: id }, 'files of a deleted branch were left; they are removed now')
    }
  }
  return startPeriodic(EVERY_MS, sweep, (error) =>
    log.warn({ err: error }, 'could not look after what failed operations left'),
  )
}

/** One that cannot be looked at is nothing that the others should wait for. */
async function reconcileAll(context: WorkerContext, endpoints: readonly Endpoint[]): Promise<Record<Found, number>> {
  const found = { adopted: 0, gone: 0, orphaned: 0 }
  for (const { id, account_id, project_id, branch_id } of endpoints) {
    try {
      found[await reconcile(context, { id, account_id, project_id, branch_id })]++
    } catch (error) {
      context.log.error({ err: error, endpoint: id }, 'could not find out about a compute')
    }
  }
  return found
}

async function reconcile(
  { catalog, backend }: WorkerContext,
  { id, account_id, project_id, branch_id }: Pick<Endpoint, 'id' | 'account_id' | 'project_id' | 'branch_id'>,
): Promise<Found> {
  return catalog.transaction(async (tx) => {
    // Nobody can ask for anything meanwhile, so what is found stays true until it is written.
    await lockProject(tx, account_id, project_id)
    if ((await unfinishedOperations(tx, branch_id)).length > 0) return 'adopted'
    const endpoint = await findEndpointEver(tx, id)
    const branch = await findStoredBranch(tx, branch_id)
    if (!endpoint || !branch) return 'gone'
    const compute = await backend.findCompute(refOf(branch))
    if (!compute) {
      await (endpoint.deleted_at ? deleteEndpointRow(tx, id) : setIdle(tx, id))
      return 'gone'
    }
    if (endpoint.deleted_at || endpoint.disabled || endpoint.current_state !== 'active') {
      await queueSuspend(tx, endpoint, 'request')
      return 'orphaned'
    }
    const { address, pid, startedAt } = compute
    if (pid !== endpoint.compute_pid) await setActive(tx, id, branch_id, { ...address, pid, startedAt })
    else if (endpoint.pending_state ?? endpoint.holding_operation_id) await clearPending(tx, id)
    return 'adopted'
  })
}
