/*
 * Puts a compute to sleep. By the idle loop it is a hand-shake: proxies hold what they would forward, activity is read
 * once more, and if something woke meanwhile the endpoint stays active and what was held goes through. A suspend that a
 * person asks for goes the same way but does not look back.
 *
 *   checkpointed ─▶ intent_committed ─▶ proxies_hold ─▶ still_idle ─▶ compute_stopped ─▶ endpoint_idle
 *                                             └──────────────┴──────▶ reopened (idle loop only)
 *
 * What users have done by SQL to roles and databases is written down within compute_stopped, where nobody can change them any more.
 */
import { setNoted } from '../catalog/branch_config.ts'
import type { Catalog, Db } from '../catalog/catalog.ts'
import {
  deleteEndpointRow,
  type Endpoint,
  findEndpointEver,
  lockEndpoint,
  setHolding,
  setIdle,
} from '../catalog/endpoint.ts'
import { lastMove, type Operation } from '../catalog/operation.ts'
import { forgetProxies, holdsOf, registeredProxies } from '../catalog/proxy.ts'
import { readActivity } from '../compute_admin/activity.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import { done, goto, wait } from '../engine/definition.ts'
import { withNotedConfig } from './branch_config.ts'
import { type Action, branchOf, fenceOf, refOf, requestOperation } from './request.ts'
import { subjectOf } from './start_compute.ts'

export type SuspendReason = 'idle' | 'request' | 'shutdown' | 'delete' | 'move' | 'crash'

/** How long the proxies get to say that they hold. One that cannot is stuck: then an idle suspend is put off. */
const HOLD_MS = 2_000

/** `to` is the branch that the endpoint has moved to: nothing may start there until what runs on the old one has ended. */
interface Input {
  readonly reason: SuspendReason
  readonly to?: string
}

export const suspendCompute: Action<Input> = {
  action: 'suspend_compute',
  deadlineSeconds: 600,
  // What runs is stopped also where the branch that its endpoint goes to is never made.
  needsBranches: false,
  locks: (subject, { to }) => ({ excludes: [subject.branch_id as string, ...(to ? [to] : [])] }),
  steps: {
    async checkpointed(operation, { backend, secrets, log }, tx) {
      const compute = await backend.findCompute(refOf(await branchOf(tx, operation)))
      // What runs may hide: code in a compute can spoil what its server says of itself. The stop goes by the kernel's lock.
      if (!compute) return goto('compute_stopped')
      // Most of what a stop writes is written here, while the compute still serves. It is not needed for correctness.
      await withAdminSession(compute.address, secrets.stores, { purpose: 'suspend' }, (session) =>
        session.query('checkpoint'),
      ).catch((error: unknown) => log.debug({ err: error, operation: operation.id }, 'no checkpoint before the stop'))
      return undefined
    },
    async intent_committed(operation, _context, tx) {
      await setHolding(tx, operation.endpoint_id as string, operation.id)
    },
    async proxies_hold(operation, { catalog }, tx) {
      const held = await awaitHolds(catalog, tx, operation.id)
      return !held && operation.input.reason === 'idle' ? goto('reopened') : undefined
    },
    async still_idle(operation, { backend, config, secrets }, tx) {
      if (operation.input.reason !== 'idle') return undefined
      const endpoint = await findEndpointEver(tx, operation.endpoint_id as string)
      const branch = await branchOf(tx, operation)
      const holds = await holdsOf(tx, operation.id)
      if (!endpoint || endpoint.deleted_at || endpoint.disabled) return undefined
      const compute = await backend.findCompute(refOf(branch))
      if (!compute) return undefined
      const activity = await withAdminSession(compute.address, secrets.stores, { purpose: 'suspend' }, readActivity)
      const timeout = endpoint.suspend_timeout_seconds || config.suspendTimeout
      // The counters come up to a second late; when a session that is still there last did something is known at once.
      const used = activity.counters !== endpoint.idle_counters || (activity.idleSeconds ?? Infinity) < timeout
      const woken = activity.busy || used || holds.some((hold) => hold.woken)
      return woken ? goto('reopened') : undefined
    },
    async compute_stopped(operation, context, tx) {
      const branch = await branchOf(tx, operation)
      const progress = await withNotedConfig(context, branch, () =>
        context.backend.stopCompute(refOf(branch), fenceOf(operation)),
      )
      return progress === 'pending' ? wait(0, 'Postgres is stopping') : undefined
    },
    async endpoint_idle(operation, _context, tx) {
      await noteStopped(tx, operation.endpoint_id as string)
      return done
    },
    async reopened(operation, _context, tx) {
      const endpoint = await lockEndpoint(tx, operation.endpoint_id as string)
      // It has moved to another branch meanwhile: nobody is to go on here.
      if (endpoint?.branch_id !== operation.branch_id) return goto('compute_stopped')
      await setHolding(tx, endpoint.id, null)
      return done
    },
  },
  async onFailure(operation, { backend }, tx) {
    const branch = await branchOf(tx, operation)
    const runs = await backend.findCompute(refOf(branch))
    if (runs) await setNoted(tx, branch.id, false)
    const endpoint = await lockEndpoint(tx, operation.endpoint_id as string)
    // What still runs on a branch that its endpoint has left is none of the endpoint's: it is stopped as one that nobody wants.
    if (!runs || endpoint?.branch_id !== branch.id) return noteStopped(tx, operation.endpoint_id as string)
    await setHolding(tx, endpoint.id, null)
  },
}

/** The suspend_compute after which the endpoint will be idle: the last one queued, if no start stands behind it, or a new one. */
export async function queueSuspend(tx: Db, endpoint: Endpoint, reason: SuspendReason): Promise<Operation> {
  const last = await lastMove(tx, endpoint)
  // One of the idle loop's may still decide to stay: what a person asks for must not hang on that.
  if (last?.action === 'suspend_compute' && reason === 'idle') return last
  return requestOperation(tx, suspendCompute, subjectOf(endpoint), { reason })
}

/** The row of a deleted one goes with the first suspend that ends after the deletion; there may be another behind that. */
async function noteStopped(tx: Db, endpointId: string): Promise<void> {
  const endpoint = await findEndpointEver(tx, endpointId)
  if (endpoint?.deleted_at) await deleteEndpointRow(tx, endpoint.id)
  else if (endpoint) await setIdle(tx, endpoint.id)
}

/**
 * True once every proxy holds what it would forward; false if one that lives does not within the time. One that has lost its session
 * gets that time as well: it may have clients, and be about to register again.
 */
async function awaitHolds(catalog: Catalog, tx: Db, operationId: string): Promise<boolean> {
  let look = (): void => {}
  const timeout = AbortSignal.timeout(HOLD_MS)
  timeout.addEventListener('abort', () => look())
  const unlisten = await catalog.listen('proxy_hold', (payload) => {
    if (!payload || payload === operationId) look()
  })
  try {
    for (;;) {
      const changed = new Promise<void>((resolve) => {
        look = resolve
      })
      const proxies = await registeredProxies(tx)
      const holds = await holdsOf(tx, operationId)
      const held = new Set(holds.map((hold) => hold.proxy_number))
      const missing = proxies.filter(({ number }) => !held.has(number))
      if (missing.length === 0) return true
      if (timeout.aborted) {
        const dead = missing.filter(({ lives }) => !lives).map(({ number }) => number)
        await forgetProxies(tx, dead)
        return dead.length === missing.length
      }
      await changed
    }
  } finally {
    unlisten()
  }
}
