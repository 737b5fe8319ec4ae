import type { ComputeSpec, RunningCompute } from '../compute/compute.ts'
import { findStoredBranch, isClosed, type StoredBranch } from '../catalog/branch.ts'
import { setNoted } from '../catalog/branch_config.ts'
import type { Catalog, Db } from '../catalog/catalog.ts'
import { announceCompute, type EndReason, setActive, setIdle } from '../catalog/compute.ts'
import { type Endpoint, findEndpoint } from '../catalog/endpoint.ts'
import { lastMove, type Operation } from '../catalog/operation.ts'
import { lockEndpointAndProject } from '../catalog/project.ts'
import { capacityOf, takeRoom } from '../catalog/room.ts'
import { decideOnWrites, refusesWrongly } from '../catalog/size_limit.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import type { WorkerContext } from '../context.ts'
import {
  type Claimed,
  done,
  OperationFailed,
  type StepOutcome,
  wait,
  waitUntil,
  watching,
} from '../engine/definition.ts'
import { AppError } from '../errors.ts'
import { applyConfig } from './branch_config.ts'
import { beginHistory } from './wal_history.ts'
import { requireWithinQuota } from './quota.ts'
import {
  type Action,
  branchOf,
  fenceOf,
  ownedRefOf,
  placedCompute,
  refOf,
  requestOperation,
  stopCompute,
} from './request.ts'

export type StartReason = 'request' | 'connection'

/** A start fails that has waited this long for room. */
const ROOM_SECONDS = 30
/** Between two looks for room that no notification reports. */
const LOOK_SECONDS = 5

/** Starts the compute of an endpoint, or finds it running, and records it once it accepts connections. */
export const startCompute: Action<{ reason: StartReason }> = {
  action: 'start_compute',
  lane: 'start',
  deadlineSeconds: 600,
  needsBranches: true,
  locks: (subject) => ({ excludes: [subject.branch_id as string], passesShared: true }),
  steps: {
    compute_answers: startAndActivate,
  },
  async onFailure(operation, context, tx) {
    const branch = await findStoredBranch(tx, operation.branch_id ?? '')
    const stopping = branch && (await stopCompute(context, operation, branch))
    if (stopping) return stopping
    if (operation.endpoint_id) await setIdle(tx, operation.endpoint_id, 'start_failed')
    return undefined
  },
}

/**
 * The step after which a compute answers and its endpoint is active: the only step of a start, and the last of a
 * restart.
 */
export async function startAndActivate(operation: Claimed, context: WorkerContext, tx: Db): Promise<StepOutcome> {
  const { catalog, hostId } = context
  const endpointId = operation.endpoint_id ?? ''
  // A client waits: all at the same time.
  const [branch, endpoint, waited, isWrong] = await Promise.all([
    branchOf(tx, operation),
    findEndpoint(tx, endpointId),
    takeRoom(catalog, endpointId, hostId),
    refusesWrongly(tx, endpointId),
  ])
  if (!endpoint) throw new OperationFailed('the endpoint was deleted before it could start')
  if (endpoint.branch_id !== branch.id)
    throw new OperationFailed('the endpoint was moved to another branch before it could start')
  if (endpoint.disabled) throw new OperationFailed('the endpoint is disabled; enable it first')
  if (isClosed(branch)) throw new OperationFailed('the data of the branch are not masked yet; anonymize it first')
  if (branch.current_state !== 'ready') throw new OperationFailed('the branch has no data; delete it and make it anew')
  if (waited !== undefined) return waitForRoom(context, endpoint, waited)
  const store = await ownedRefOf(context, branch)
  // A catalog that is older than the disk does not know that they are archived.
  if (
    (await context.storage.isPacked(store)) &&
    (await context.storage.unpack(store, fenceOf(operation))) === 'pending'
  )
    return waitUntil(context.storage.filled(store), 'the archived data are being brought back')
  // Outside this transaction: it locks rows that others wait for.
  const decided = isWrong ? await decideOnWrites(catalog, endpointId) : undefined
  const spec = specOf(decided ?? endpoint, branch)
  const compute = await context.computes.start(store, spec, fenceOf(operation))
  if (compute === 'pending')
    return watching(context.computes.settled(refOf(branch)), await context.computes.readProgress(refOf(branch)))
  const configured = branch.applied_version >= branch.config_version
  const { id, address } = compute
  // Clients may log in during the rest, but only once new roles and passwords are applied.
  if (configured) await announceCompute(context.catalog, { endpoint_id: endpoint.id, id, ...address })
  // A session costs as much as a tenth of a start: it is left out where it would only show that the compute answers.
  const outcome =
    configured && branch.first_segment !== null && compute.isNew
      ? undefined
      : await withAdminSession(address, context.secrets.stores, { purpose: 'start' }, async (session) => {
          const changes = configured ? undefined : await applyConfig(context, session, tx, branch)
          if (branch.first_segment === null && !changes?.unfinished)
            await beginHistory(context, session, { id: branch.store_id, pgVersion: branch.pg_version })
          return changes
        })
  if (outcome?.unfinished) return wait(0, 'roles and databases are being changed')
  // Clients of a new branch would find no database: later changes may wait for an apply_config, the first may not.
  const isFirst = branch.applied_version === 0 && endpoint.current_state === 'init'
  const [postponed] = isFirst ? (outcome?.postponed ?? []) : []
  if (postponed) return wait(1, postponed.message)
  await setNoted(tx, branch.id, false)
  // An earlier compute has ended by itself; the crash loop records why.
  const replaces = operation.action === 'start_compute' ? 'replaced' : 'restart'
  if (!(await activate(context, tx, endpoint, branch, compute, replaces)))
    throw new OperationFailed('the endpoint was deleted, or moved to another branch, before it could start')
  return done
}

/**
 * Waits for room on this host.
 * @param waited for how many seconds the start has waited already
 */
async function waitForRoom({ catalog, hostId }: WorkerContext, { cu }: Endpoint, waited: number): Promise<StepOutcome> {
  const capacity = await capacityOf(catalog, hostId)
  if (capacity !== undefined && cu > capacity)
    throw new OperationFailed(`its host has room for ${capacity} CU in all, and it needs ${cu}: choose a smaller size`)
  if (waited >= ROOM_SECONDS)
    throw new OperationFailed(
      `its host had no room for ${cu} CU within ${ROOM_SECONDS} s: ` +
        'suspend another endpoint, choose a smaller size, or try again later',
    )
  // Room that becomes free ends the wait earlier.
  return wait(Math.min(LOOK_SECONDS, ROOM_SECONDS - waited), `its host has no room for ${cu} CU`)
}

/**
 * Holds a running compute to its endpoint's size and makes the endpoint active with it. Returns false when that has
 * moved to another branch meanwhile.
 */
export async function activate(
  { computes }: Pick<WorkerContext, 'computes'>,
  tx: Db,
  endpoint: Endpoint,
  branch: StoredBranch,
  compute: RunningCompute,
  replaces: EndReason = 'restart',
): Promise<boolean> {
  const limitError = await computes.resize(compute.id, specOf(endpoint, branch))
  return setActive(tx, endpoint.id, branch.id, placedCompute(compute), { limitError, replaces })
}

/** The size, settings and egress of an endpoint's compute. */
export function specOf(endpoint: Endpoint, { egress }: StoredBranch): ComputeSpec {
  return {
    minCu: endpoint.min_cu,
    maxCu: endpoint.max_cu,
    cu: endpoint.cu,
    pgSettings: endpoint.settings.pg_settings ?? {},
    egress,
    serves: true,
    refusesWrites: endpoint.writes_refused !== null,
  }
}

/**
 * Ensures that a start_compute of the endpoint is queued or running, and returns its id. Returns undefined when the
 * endpoint is active with a compute other than `deadComputeId`, which the caller found not to answer, and no operation
 * is pending.
 * Errors: NOT_FOUND, NOT_ALLOWED (disabled), and those of a quota that is used up.
 */
export async function requestStart(
  catalog: Catalog,
  { id: endpointId, project_id: project }: Pick<Endpoint, 'id' | 'project_id'>,
  deadComputeId: string | undefined,
): Promise<string | undefined> {
  const request = async (tx: Db): Promise<string | undefined> => {
    // Pipelined: a client waits.
    const [, endpoint] = await Promise.all([lockEndpointAndProject(tx, endpointId), findEndpoint(tx, endpointId)])
    if (!endpoint) throw new AppError('NOT_FOUND', `endpoint ${endpointId} not found`)
    if (endpoint.disabled)
      throw new AppError('NOT_ALLOWED', 'The endpoint has been disabled. Enable it using the API and retry.')
    const lives = endpoint.current_state === 'active' && endpoint.compute_id !== deadComputeId
    if (lives && endpoint.pending_state === null) return undefined
    await requireWithinQuota(tx, endpoint)
    return (await queueStart(tx, endpoint, 'connection')).id
  }
  return catalog.transaction(request, { project })
}

/**
 * The start_compute after which the endpoint will be active: the last one queued, unless a suspend follows it, or a new
 * one.
 */
export async function queueStart(tx: Db, endpoint: Endpoint, reason: StartReason): Promise<Operation> {
  const last = await lastMove(tx, endpoint)
  if (last?.action === 'start_compute' && last.branch_id === endpoint.branch_id) return last
  return requestOperation(tx, startCompute, subjectOf(endpoint), { reason })
}

export const subjectOf = (endpoint: Endpoint) => ({
  account_id: endpoint.account_id,
  project_id: endpoint.project_id,
  branch_id: endpoint.branch_id,
  endpoint_id: endpoint.id,
})
