import { findStoredBranch, listResting, type StoredBranch } from '../catalog/branch.ts'
import { endRecovery, listLeftovers } from '../catalog/branch_recovery.ts'
import type { Db } from '../catalog/catalog.ts'
import { noteCrash, setIdle, takeReplaced } from '../catalog/compute.ts'
import {
  deleteEndpointRow,
  type Endpoint,
  findBranchEndpoint,
  listEndpointsWithCompute,
  listStrandedEndpoints,
  lockEndpoint,
  setLimitError,
  setPause,
} from '../catalog/endpoint.ts'
import { failUnbegun, type Operation, unfinishedOperations } from '../catalog/operation.ts'
import { lastSeqOf, lockProject, lockProjectEver } from '../catalog/project.ts'
import { abandonLostCopies } from '../catalog/restore.ts'
import { listUnknownStores } from '../catalog/store.ts'
import type { WorkerContext } from '../context.ts'
import { deleteTimeline } from '../operations/delete_timeline.ts'
import { refOf, requestOperation } from '../operations/request.ts'
import { activate, specOf, startCompute, subjectOf } from '../operations/start_compute.ts'
import { queueSuspend, suspendCompute } from '../operations/suspend_compute.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 60_000
/** Endpoints reconciled concurrently. */
const AT_ONCE = 4
/** Removals of stores that one sweep asks for, and more on a full disk of stores that could still be recovered. */
const LEFTOVERS_AT_ONCE = { limit: 100, early: 10 }

type Found = 'adopted' | 'gone' | 'orphaned' | 'busy'

/**
 * Reconciles the catalog with this machine after a crash: adopts running computes, records ended ones and suspends
 * orphaned ones. Resources of an unfinished operation are left to that operation. Stores that the catalog does not know
 * are only logged.
 */
export async function adopt(context: WorkerContext): Promise<Record<Found, number>> {
  const { catalog, storage, hostId, log } = context
  const found = await reconcileAll(context, await listEndpointsWithCompute(catalog, hostId))
  found.orphaned += await stopOrphans(context)
  await storage.visit(async (stores) => {
    for (const id of await listUnknownStores(catalog, stores))
      log.warn({ store: id }, 'the catalog does not know this store; left alone')
  })
  return found
}

/**
 * Suspends orphaned computes: their branch has no active endpoint and no unfinished operation. Returns their number.
 */
async function stopOrphans({ catalog, computes, hostId, log }: WorkerContext): Promise<number> {
  let stopped = 0
  const stores = await computes.listRunning()
  for (const store of await listUnknownStores(catalog, stores))
    log.warn({ store }, 'a server runs on a store that the catalog does not know; left alone')
  for (const branch of await listResting(catalog, hostId, stores)) {
    // A suspend of a sleeping branch whose files are only read would hold up its clients.
    if (!(await computes.isTaken(refOf(branch)))) continue
    const operation = await catalog.transaction(async (tx) => {
      if (!(await lockProject(tx, branch.account_id, branch.project_id))) return undefined
      if ((await unfinishedOperations(tx, branch.id)).length > 0) return undefined
      // Read after its operations: an operation that has just ended has already written its state here.
      const endpoint = await findBranchEndpoint(tx, branch.id)
      if (endpoint?.current_state === 'active') return undefined
      if (endpoint) return queueSuspend(tx, endpoint, 'request')
      const subject = { account_id: branch.account_id, project_id: branch.project_id, branch_id: branch.id }
      return requestOperation(tx, suspendCompute, subject, { reason: 'request' })
    })
    if (!operation) continue
    log.warn({ branch: branch.id, operation: operation.id }, 'stopping an orphaned compute')
    stopped++
  }
  return stopped
}

/**
 * Cleans up after failed operations, at once and then every minute: stranded endpoints, orphaned computes, stores of
 * deleted branches.
 */
export function startSweepLoop(context: WorkerContext): Loop {
  const { catalog, hostId, log } = context
  // Each by itself: one that fails holds up no other.
  const kinds: Readonly<Record<string, () => Promise<unknown>>> = {
    'stranded endpoints': async () => reconcileAll(context, await listStrandedEndpoints(catalog, hostId)),
    'orphaned computes': () => stopOrphans(context),
    'lost copies': () => abandonLostCopies(catalog),
    'stores of deleted branches': () => removeLeftovers(context),
  }
  const onError = (error: unknown, kind?: string) =>
    log.warn({ err: error, kind }, 'could not clean up after failed operations')
  const sweep = async (): Promise<void> => {
    for (const [kind, clean] of Object.entries(kinds)) await clean().catch((error: unknown) => onError(error, kind))
  }
  return startPeriodic(EVERY_MS, sweep, onError)
}

/** Queues the removal of stores of deleted branches, unless it is queued. A removal that fails holds up no other. */
export async function removeLeftovers({
  catalog,
  hostId,
  log,
}: Pick<WorkerContext, 'catalog' | 'hostId' | 'log'>): Promise<void> {
  for (const branch of await listLeftovers(catalog, hostId, LEFTOVERS_AT_ONCE)) {
    const subject = { account_id: branch.account_id, project_id: branch.project_id, branch_id: branch.id }
    try {
      const operation = await catalog.transaction(async (tx) => {
        await lockProjectEver(tx, branch.project_id)
        return (await endRecovery(tx, branch.id)) ? requestOperation(tx, deleteTimeline, subject, {}) : undefined
      })
      if (operation) log.info({ branch: branch.id, operation: operation.id }, 'removing the store of a deleted branch')
    } catch (error) {
      log.warn({ err: error, branch: branch.id }, 'could not remove the store of a deleted branch')
    }
  }
}

/** An endpoint that cannot be reconciled does not hold up the others. */
async function reconcileAll(context: WorkerContext, endpoints: readonly Endpoint[]): Promise<Record<Found, number>> {
  const found = { adopted: 0, gone: 0, orphaned: 0, busy: 0 }
  const left = [...endpoints]
  const reconcileRest = async (): Promise<void> => {
    for (let endpoint = left.shift(); endpoint; endpoint = left.shift()) {
      try {
        found[await reconcile(context, endpoint)]++
      } catch (error) {
        context.log.error({ err: error, endpoint: endpoint.id }, 'could not reconcile a compute')
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, reconcileRest))
  return found
}

/**
 * Reconciles one endpoint with its compute, unless an unfinished operation is about to. Records a compute that ended by
 * itself.
 * @param ended id of a compute known to have ended: its end is recorded even if a client has already caused a new start
 */
export async function reconcile(
  context: Pick<WorkerContext, 'catalog' | 'computes' | 'hostId' | 'log'>,
  { id, project_id, branch_id }: Pick<Endpoint, 'id' | 'project_id' | 'branch_id'>,
  ended?: string,
): Promise<Found> {
  const { catalog, computes, hostId, log } = context
  // No client of the project waits for this look at the machine: it takes up to a second.
  const before = await lookUnlocked()
  return catalog.transaction(async (tx) => {
    // Under this lock no operation is queued or ends, so the state read here stays true until it is written.
    const seq = await lockProjectEver(tx, project_id)
    const endpoint = await lockEndpoint(tx, id)
    if (endpoint && endpoint.branch_id !== branch_id) return 'busy'
    // An operation that ended the process has recorded so by now.
    if (ended !== undefined && endpoint?.compute_id !== ended) return 'gone'
    const unfinished = await unfinishedOperations(tx, branch_id, id)
    const branch = await findStoredBranch(tx, branch_id)
    // Only its own host can say whether it runs.
    if (branch && branch.host_id !== hostId) return 'busy'
    if (unfinished.length > 0) {
      if (ended === undefined || !endpoint || !branch || unfinished.some(mayStop)) return 'busy'
      await recordEnd(tx, endpoint, await lastWords(endpoint, branch))
      await noteCrash(tx, id, ended)
      return 'gone'
    }
    if (!endpoint || !branch) return 'gone'
    const { compute, isEarlier } = before !== undefined && before.seq === seq ? before : await look(branch)
    if (isEarlier) {
      // A server from before computes had walls. Its next start is behind walls.
      await queueSuspend(tx, endpoint, 'request')
      return 'orphaned'
    }
    if (!compute) {
      const isForgotten = endpoint.deleted_at !== null && !endpoint.recoverable
      if (isForgotten) await deleteEndpointRow(tx, id)
      else if (endpoint.current_state === 'active') await recordEnd(tx, endpoint, await lastWords(endpoint, branch))
      if (!isForgotten) await setIdle(tx, id, 'crash')
      return 'gone'
    }
    if (endpoint.deleted_at || endpoint.disabled || endpoint.current_state !== 'active') {
      await queueSuspend(tx, endpoint, 'request')
      return 'orphaned'
    }
    if (compute.id !== endpoint.compute_id) await activate(context, tx, endpoint, branch, compute)
    else {
      if (endpoint.holding_operation_id) await setPause(tx, id, null)
      const limitError = (await computes.resize(compute.id, specOf(endpoint, branch))) ?? null
      if (limitError !== endpoint.limit_error) await setLimitError(tx, id, compute.id, limitError)
    }
    return 'adopted'
  })

  async function look(branch: StoredBranch) {
    const compute = await computes.find(refOf(branch))
    return { compute, isEarlier: !compute && (await computes.hasEarlierServer(refOf(branch))) }
  }

  /** Undefined when an operation may start or stop a compute; else it holds until the project queues another one. */
  async function lookUnlocked() {
    const seq = await lastSeqOf(catalog, project_id)
    const branch = await findStoredBranch(catalog, branch_id)
    const unfinished = await unfinishedOperations(catalog, branch_id, id)
    return branch && unfinished.length === 0 ? { seq, ...(await look(branch)) } : undefined
  }

  /** Describes the end of the compute, with its last log messages where there are any. */
  async function lastWords({ compute_id, started_at }: Endpoint, branch: StoredBranch): Promise<string> {
    const words = await computes
      .lastWords(refOf(branch), { id: compute_id ?? '', startedAt: new Date(started_at ?? 0) })
      .catch(() => '')
    log.warn({ endpoint: id, compute: compute_id, words }, 'a compute has ended by itself')
    return sentence(words)
  }
}

/** Records the end of a compute that a start has replaced before its end was noticed. */
export async function recordReplaced(
  { catalog, computes }: Pick<WorkerContext, 'catalog' | 'computes'>,
  endpoint: Endpoint,
  computeId: string,
): Promise<void> {
  await catalog.transaction(async (tx) => {
    await lockProjectEver(tx, endpoint.project_id)
    const replaced = await takeReplaced(tx, computeId)
    const branch = replaced && (await findStoredBranch(tx, endpoint.branch_id))
    if (!branch) return
    const compute = { id: computeId, startedAt: new Date(replaced.started_at) }
    await recordEnd(tx, endpoint, sentence(await computes.lastWords(refOf(branch), compute).catch(() => '')))
  })
}

const sentence = (words: string): string =>
  `Postgres ended without having been asked to${words && `: ${words}`}. The next connection starts it again.`

/** Records an unrequested end as a failed operation: users look there for the history of an endpoint. */
async function recordEnd(tx: Db, endpoint: Endpoint, words: string): Promise<void> {
  const { id } = await requestOperation(tx, suspendCompute, subjectOf(endpoint), { reason: 'crash' })
  await failUnbegun(tx, id, words)
}

/** Whether an operation may itself end a compute. A start does not unless it has failed. */
function mayStop({ action, error }: Operation): boolean {
  return action !== startCompute.action || error !== null
}
