import {
  findStoredBranch,
  listLeftovers,
  listResting,
  listUnknownStores,
  type StoredBranch,
} from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import {
  deleteEndpointRow,
  type Endpoint,
  findBranchEndpoint,
  forgetCompute,
  listEndpointsWithCompute,
  listStrandedEndpoints,
  lockEndpoint,
  setActive,
  setHolding,
  setIdle,
} from '../catalog/endpoint.ts'
import { failUnbegun, type Operation, unfinishedOperations } from '../catalog/operation.ts'
import { lockProject } from '../catalog/project.ts'
import { abandonLostCopies } from '../catalog/restore.ts'
import type { WorkerContext } from '../context.ts'
import { deleteTimeline } from '../operations/delete_timeline.ts'
import { refOf, requestOperation } from '../operations/request.ts'
import { startCompute, subjectOf } from '../operations/start_compute.ts'
import { queueSuspend, suspendCompute } from '../operations/suspend_compute.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 60_000
/** So many endpoints are looked at side by side. */
const AT_ONCE = 4

type Found = 'adopted' | 'gone' | 'orphaned' | 'busy'

/**
 * Makes the catalog and this machine agree again after a crash: computes that run are adopted, computes that are gone are
 * noticed, ones that nobody wants are suspended. What an unfinished operation is about is left to that operation. Branches
 * that the catalog does not know are only reported, never touched.
 */
export async function adopt(context: WorkerContext): Promise<Record<Found, number>> {
  const { catalog, backend, log } = context
  const found = await reconcileAll(context, await listEndpointsWithCompute(catalog))
  found.orphaned += await stopOrphans(context)
  for (const id of await listUnknownStores(catalog, await backend.listBranches()))
    log.warn({ store: id }, 'files of a branch that the catalog does not know; left alone')
  return found
}

/** Suspends the computes that run although the catalog has their branch at rest. Answers how many there are. */
async function stopOrphans({ catalog, backend, log }: WorkerContext): Promise<number> {
  let stopped = 0
  const stores = await backend.listRunning()
  for (const store of await listUnknownStores(catalog, stores))
    log.warn({ store }, 'files of a branch that the catalog does not know are at work; left alone')
  for (const branch of await listResting(catalog, stores)) {
    const operation = await catalog.transaction(async (tx) => {
      if (!(await lockProject(tx, branch.account_id, branch.project_id))) return undefined
      if ((await unfinishedOperations(tx, branch.id)).length > 0) return undefined
      // Looked at after its operations: one that has just ended has left its mark there.
      const endpoint = await findBranchEndpoint(tx, branch.id)
      // One that has just ended is stopped once more, for nothing; one that hides would never be found by what it says of itself.
      if (endpoint?.current_state === 'active') return undefined
      if (endpoint) return queueSuspend(tx, endpoint, 'request')
      const subject = { account_id: branch.account_id, project_id: branch.project_id, branch_id: branch.id }
      return requestOperation(tx, suspendCompute, subject, { reason: 'request' })
    })
    if (!operation) continue
    log.warn({ branch: branch.id, operation: operation.id }, 'a compute ran that nobody wants; it is stopped')
    stopped++
  }
  return stopped
}

/** Looks, at once and then every minute, after what failed operations left: endpoints that are going nowhere, files of deleted branches. */
export function startSweepLoop(context: WorkerContext): Loop {
  const { catalog, log } = context
  const sweep = async (): Promise<void> => {
    await reconcileAll(context, await listStrandedEndpoints(catalog))
    await stopOrphans(context)
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
  const found = { adopted: 0, gone: 0, orphaned: 0, busy: 0 }
  const left = [...endpoints]
  const reconcileRest = async (): Promise<void> => {
    for (let endpoint = left.shift(); endpoint; endpoint = left.shift()) {
      try {
        found[await reconcile(context, endpoint)]++
      } catch (error) {
        context.log.error({ err: error, endpoint: endpoint.id }, 'could not find out about a compute')
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, reconcileRest))
  return found
}

/**
 * Makes one endpoint agree with what runs of it, unless an operation is about to. A compute that ended by itself is put on record.
 * @param ended the process that is known to have ended: then it is on record also where a client was back at once
 */
export async function reconcile(
  { catalog, backend, log }: Pick<WorkerContext, 'catalog' | 'backend' | 'log'>,
  { id, account_id, project_id, branch_id }: Pick<Endpoint, 'id' | 'account_id' | 'project_id' | 'branch_id'>,
  ended?: number,
): Promise<Found> {
  return catalog.transaction(async (tx) => {
    // Nobody can ask for anything meanwhile, and nothing that was asked for ends: what is found stays true until it is written.
    await lockProject(tx, account_id, project_id)
    const endpoint = await lockEndpoint(tx, id)
    if (endpoint && endpoint.branch_id !== branch_id) return 'busy'
    // What ended it has said so by now.
    if (ended !== undefined && endpoint?.compute_pid !== ended) return 'gone'
    const unfinished = await unfinishedOperations(tx, branch_id, id)
    const branch = await findStoredBranch(tx, branch_id)
    if (unfinished.length > 0) {
      if (ended === undefined || !endpoint || !branch || unfinished.some(mayStop)) return 'busy'
      await recordEnd(tx, endpoint, await lastWords(endpoint, branch))
      await forgetCompute(tx, id, ended)
      return 'gone'
    }
    if (!endpoint || !branch) return 'gone'
    const compute = await backend.findCompute(refOf(branch))
    if (!compute && (await backend.hasEarlierServer(refOf(branch)))) {
      // Its next start is behind walls.
      await queueSuspend(tx, endpoint, 'request')
      return 'orphaned'
    }
    if (!compute) {
      if (endpoint.deleted_at) await deleteEndpointRow(tx, id)
      else if (endpoint.current_state === 'active') await recordEnd(tx, endpoint, await lastWords(endpoint, branch))
      if (!endpoint.deleted_at) await setIdle(tx, id)
      return 'gone'
    }
    if (endpoint.deleted_at || endpoint.disabled || endpoint.current_state !== 'active') {
      await queueSuspend(tx, endpoint, 'request')
      return 'orphaned'
    }
    const { address, pid, startedAt } = compute
    if (pid !== endpoint.compute_pid) await setActive(tx, id, branch_id, { ...address, pid, startedAt })
    else if (endpoint.holding_operation_id) await setHolding(tx, id, null)
    return 'adopted'
  })

  /** Which end it was, as far as anybody knows. */
  async function lastWords({ compute_pid, started_at }: Endpoint, branch: StoredBranch): Promise<string> {
    const words = await backend.lastWords(refOf(branch), new Date(started_at ?? 0)).catch(() => '')
    log.warn({ endpoint: id, pid: compute_pid, words }, 'a compute has ended by itself')
    return `Postgres (process ${compute_pid}) ended without having been asked to${words && `: ${words}`}. The next connection starts it again.`
  }
}

/** An end that nobody asked for is an operation that failed: that is where people look for what happened to an endpoint. */
async function recordEnd(tx: Db, endpoint: Endpoint, words: string): Promise<void> {
  const { id } = await requestOperation(tx, suspendCompute, subjectOf(endpoint), { reason: 'crash' })
  await failUnbegun(tx, id, words)
}

/** Whether an operation may itself be what ends a compute. A start is not, as long as nothing went wrong with it. */
function mayStop({ action, error }: Operation): boolean {
  return action !== startCompute.action || error !== null
}
