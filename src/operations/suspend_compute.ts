/*
 * Suspends a compute by a hand-shake with the proxies: they pause traffic, activity is read once more, and if the
 * endpoint was used meanwhile it stays active and the traffic resumes. Only suspends of the idle loop look back like
 * this; a suspend that was requested always stops the compute.
 *
 *   checkpointed ─▶ intent_committed ─▶ proxies_hold ─▶ still_idle ─▶ compute_stopped ─▶ endpoint_idle
 *                                             └──────────────┴──────▶ reopened (idle loop only)
 *
 * compute_stopped records the changes that users made by SQL to roles and databases, under a lock that prevents further
 * ones.
 */
import { awaitCondition } from '../await_condition.ts'
import { findStoredBranch } from '../catalog/branch.ts'
import { setNoted } from '../catalog/branch_config.ts'
import type { Catalog, Db } from '../catalog/catalog.ts'
import { type ComputeEnd, setIdle } from '../catalog/compute.ts'
import { deleteEndpointRow, type Endpoint, findEndpointEver, lockEndpoint, setPause } from '../catalog/endpoint.ts'
import { lastMove, type Operation } from '../catalog/operation.ts'
import { deleteProxies, pausesOf, registeredProxies } from '../catalog/proxy.ts'
import { readActivity } from '../compute_admin/activity.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import { type Claimed, done, goto } from '../engine/definition.ts'
import { withNotedConfig } from './branch_config.ts'
import { type Action, branchOf, refOf, requestOperation, stopCompute } from './request.ts'
import { subjectOf } from './start_compute.ts'

export type SuspendReason = 'idle' | 'request' | 'shutdown' | 'delete' | 'move' | 'crash'

/** How long proxies have to confirm the pause. A proxy that does not is stuck, and an idle suspend is put off. */
const HOLD_MS = 2_000

/**
 * `to` is the branch that the endpoint has moved to: no compute may start there until the one on the old branch has
 * stopped.
 */
interface Input {
  readonly reason: SuspendReason
  readonly to?: string
  /** The copy that the branch is about to take its data from: the compute runs until it is made. */
  readonly copy_id?: string
}

export const suspendCompute: Action<Input> = {
  action: 'suspend_compute',
  lane: 'suspend',
  deadlineSeconds: 600,
  // The compute is stopped even if the branch that its endpoint moves to is never created.
  needsBranches: false,
  locks: ({ branch_id }, { to, copy_id }) => ({
    excludes: [branch_id, to, copy_id].filter((id) => id !== undefined),
    passesShared: true,
  }),
  steps: {
    async checkpointed(operation, { computes, secrets, log }, tx) {
      const branch = await findStoredBranch(tx, operation.branch_id ?? '')
      // The branch's data has been removed, and its compute with it.
      if (!branch) return goto('endpoint_idle')
      const compute = await computes.find(refOf(branch))
      // Code in a compute can falsify its server's status, so a running server may not be found. The stop checks the
      // kernel lock.
      if (!compute) return goto('compute_stopped')
      // Writes most of the dirty pages while the compute still serves, so that the stop is short. Not needed for
      // correctness.
      await withAdminSession(compute.address, secrets.stores, { purpose: 'suspend' }, (session) =>
        session.query('checkpoint'),
      ).catch((error: unknown) => log.debug({ err: error, operation: operation.id }, 'no checkpoint before the stop'))
      return undefined
    },
    async intent_committed(operation, _context, tx) {
      await setPause(tx, operation.endpoint_id as string, operation.id)
    },
    async proxies_hold(operation, { catalog }, tx) {
      const held = await awaitPauses(catalog, tx, operation.id)
      return !held && operation.input.reason === 'idle' ? goto('reopened') : undefined
    },
    async still_idle(operation, { computes, config, secrets, log }, tx) {
      if (operation.input.reason !== 'idle') return undefined
      const endpoint = await findEndpointEver(tx, operation.endpoint_id as string)
      const branch = await branchOf(tx, operation)
      const holds = await pausesOf(tx, operation.id)
      if (!endpoint || endpoint.deleted_at || endpoint.disabled) return undefined
      const compute = await computes.find(refOf(branch))
      if (!compute) return undefined
      const options = { purpose: 'suspend' }
      const activity = await withAdminSession(compute.address, secrets.stores, options, readActivity).catch(
        (error: unknown) =>
          log.debug({ err: error, operation: operation.id }, 'a compute does not say whether it is used'),
      )
      // Its clients wait meanwhile: they go on, and the idle loop looks again later.
      if (!activity) return goto('reopened')
      const timeout = endpoint.suspend_timeout_seconds || config.suspendTimeout
      // The counters lag by up to a second; the last activity of a connected session is known at once.
      const used = activity.counters !== endpoint.idle_counters || (activity.idleSeconds ?? Infinity) < timeout
      const woken = activity.busy || used || holds.some((hold) => hold.woken)
      return woken ? goto('reopened') : undefined
    },
    async compute_stopped(operation, context, tx) {
      const branch = await branchOf(tx, operation)
      return withNotedConfig(context, branch, () => stopCompute(context, operation, branch))
    },
    async endpoint_idle(operation, { storage }, tx) {
      const branch = await findStoredBranch(tx, operation.branch_id ?? '')
      const lsn = branch && (await storage.shutdownPosition(refOf(branch)).catch(() => undefined))
      await noteStopped(tx, operation, lsn ? { storeId: branch.store_id, lsn } : undefined)
      return done
    },
    async reopened(operation, _context, tx) {
      const endpoint = await lockEndpoint(tx, operation.endpoint_id as string)
      // The endpoint has moved to another branch meanwhile: no client may continue on this one.
      if (endpoint?.branch_id !== operation.branch_id) return goto('compute_stopped')
      await setPause(tx, endpoint.id, null)
      return done
    },
  },
  async onFailure(operation, { computes }, tx) {
    const branch = await branchOf(tx, operation)
    const runs = await computes.find(refOf(branch))
    if (runs) await setNoted(tx, branch.id, false)
    const endpoint = await lockEndpoint(tx, operation.endpoint_id as string)
    // A compute on a branch that its endpoint has left does not concern the endpoint: the sweep loop stops it.
    if (!runs || endpoint?.branch_id !== branch.id) return noteStopped(tx, operation)
    await setPause(tx, endpoint.id, null)
  },
}

/** Queues a suspend_compute, or returns the last one queued if no start follows it and it does the same. */
export async function queueSuspend(tx: Db, endpoint: Endpoint, reason: SuspendReason): Promise<Operation> {
  const last = await lastMove(tx, endpoint)
  // A suspend of the idle loop may still decide to stay active, so a requested suspend must not rely on it.
  if (last?.action === 'suspend_compute' && reason === 'idle') return last
  const isAskedFor = last?.action === 'suspend_compute' && last.reason === 'request' && reason === 'request'
  if (isAskedFor && last.status === 'scheduling' && last.branch_id === endpoint.branch_id) return last
  return requestOperation(tx, suspendCompute, subjectOf(endpoint), { reason })
}

/** The first suspend that ends after the deletion of an endpoint removes its row; another may follow it. */
async function noteStopped(tx: Db, { endpoint_id, input }: Claimed<Input>, end?: ComputeEnd): Promise<void> {
  const endpoint = await findEndpointEver(tx, endpoint_id as string)
  if (endpoint?.deleted_at && !endpoint.recoverable) await deleteEndpointRow(tx, endpoint.id)
  else if (endpoint) await setIdle(tx, endpoint.id, input.reason, end)
}

/**
 * Returns true once every proxy has paused the endpoint, false when a live one has not in time. A proxy that has lost
 * its catalog session gets that time as well: it may have clients and be about to register again.
 */
async function awaitPauses(catalog: Catalog, tx: Db, operationId: string): Promise<boolean> {
  const missing = await awaitCondition({
    subscribe: (wake) =>
      catalog.listen('proxy_hold', (payload) => {
        if (!payload || payload === operationId) wake()
      }),
    read: () => missingHolds(tx, operationId),
    isMet: (proxies) => proxies.length === 0,
    until: AbortSignal.timeout(HOLD_MS),
  })
  if (missing.length === 0) return true
  const dead = missing.filter(({ lives }) => !lives).map(({ number }) => number)
  await deleteProxies(tx, dead)
  return dead.length === missing.length
}

/** The registered proxies that have not paused the endpoint. */
async function missingHolds(tx: Db, operationId: string) {
  const proxies = await registeredProxies(tx)
  const holds = await pausesOf(tx, operationId)
  const held = new Set(holds.map((hold) => hold.proxy_number))
  return proxies.filter(({ number }) => !held.has(number))
}
