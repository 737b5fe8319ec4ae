/*
 * Applies changed roles, databases, size and settings to a running compute. Without one, the next start applies them.
 *
 *   config_applied ─▶ settings_applied ─▶ (done)
 *         │                 └─ a setting needs a restart ────┐
 *         └─ the egress setting changed ─────────────────────┴▶ intent_committed ─▶ compute_stopped ─▶ compute_answers
 */
import type { RunningCompute } from '../compute/compute.ts'
import { findStoredBranch, type StoredBranch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { setIdle } from '../catalog/compute.ts'
import { type Endpoint, findBranchEndpoint, setLimitError, setPause } from '../catalog/endpoint.ts'
import type { ChangeFailure, ChangesOutcome } from '../compute_admin/changes.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import { reloadSettings } from '../compute_admin/settings.ts'
import type { WorkerContext } from '../context.ts'
import { type Claimed, done, goto, OperationFailed, wait } from '../engine/definition.ts'
import { applyConfig, mayReplicate } from './branch_config.ts'
import { type Action, branchOf, fenceOf, refOf, stopCompute } from './request.ts'
import { activate, startAndActivate, specOf } from './start_compute.ts'

interface Input {
  /** The endpoint has just moved to this branch. Its compute is about to stop, so there is no compute to change. */
  readonly moved?: boolean
  /** Logical replication was requested. */
  readonly replication?: boolean
  /** The project's egress setting changed; a running compute adopts it by a restart. */
  readonly egress?: boolean
  /** Names of the settings that the user changed on the endpoint, when size or settings were changed. */
  readonly settings?: readonly string[]
}

/**
 * Fails if Postgres rejects the changes it was queued for. Rejections of other operations' changes fail those
 * operations.
 */
export const applyConfigOperation: Action<Input> = {
  action: 'apply_config',
  deadlineSeconds: 120,
  needsBranches: true,
  locks: (subject) => ({ excludes: [subject.branch_id as string], passesShared: true }),
  steps: {
    async config_applied(operation, context, tx) {
      if (operation.input.moved) return done
      if (operation.input.egress !== undefined)
        return (await runningOf(await branchOf(tx, operation), context, tx)) ? goto('intent_committed') : done
      const outcome = await applyTo(await branchOf(tx, operation), operation, context, tx)
      if (!outcome) return done
      if (operation.input.replication && !mayReplicate(await context.computes.walls()))
        throw new OperationFailed(
          'logical replication needs computes that have a root directory of their own (docs/walls.md), ' +
            'which this machine does not give',
        )
      const own = (failures: ChangeFailure[]) =>
        failures
          .filter((failure) => failure.operation_id === operation.id)
          .map((failure) => failure.message)
          .join('; ')
      if (own(outcome.refused)) throw new OperationFailed(own(outcome.refused))
      if (own(outcome.postponed)) throw new Error(own(outcome.postponed))
      if (outcome.unfinished) return wait(0, 'roles and databases are being changed')
      return operation.input.settings ? undefined : done
    },
    async settings_applied(operation, context, tx) {
      const branch = await branchOf(tx, operation)
      const running = await runningOf(branch, context, tx)
      if (!running) return done
      const { endpoint, compute } = running
      const spec = specOf(endpoint, branch)
      // The autoscaling loop alone limits a compute that it may resize: another writer could undo its last change.
      const isFixed = spec.minCu === spec.maxCu && endpoint.wanted_cu === null
      const limitError = isFixed ? ((await context.computes.resize(compute.id, spec)) ?? null) : undefined
      await context.computes.configure(refOf(branch), spec, fenceOf(operation))
      const options = { purpose: 'apply_config' }
      const { pendingRestart, refused } = await withAdminSession(
        compute.address,
        context.secrets.stores,
        options,
        reloadSettings,
      )
      if (refused.length > 0)
        throw new OperationFailed(`Postgres does not take ${refused.join(', ')}; set another value`)
      if (limitError !== undefined) await setLimitError(tx, endpoint.id, compute.id, limitError)
      // A setting that only the size changed waits for the next start.
      return operation.input.settings?.some((name) => pendingRestart.includes(name)) ? undefined : done
    },
    async intent_committed(operation, _context, tx) {
      // From now on proxies pause new connections.
      await setPause(tx, operation.endpoint_id as string, operation.id)
    },
    async compute_stopped(operation, context, tx) {
      return stopCompute(context, operation, await branchOf(tx, operation))
    },
    compute_answers: startAndActivate,
  },
  // Rejected changes are off the list after this; the next apply_config or start retries postponed ones.
  async onFailure(operation, context, tx) {
    const branch = await findStoredBranch(tx, operation.branch_id ?? '')
    if (!branch || operation.input.moved) return
    const running = await runningOf(branch, context, tx)
    if (!running) return
    const { endpoint } = running
    if (endpoint.holding_operation_id === operation.id) await setPause(tx, endpoint.id, null)
    await applyTo(branch, operation, context, tx)
  },
}

/**
 * The active endpoint of a branch and its compute. Returns undefined when no compute runs. A killed compute sets the
 * endpoint idle: its next start applies the changes, and further attempts here would delay it. A compute restarted by a
 * step whose writes a crash of the catalog lost is recorded.
 */
async function runningOf(
  branch: StoredBranch,
  context: WorkerContext,
  tx: Db,
): Promise<{ endpoint: Endpoint; compute: RunningCompute } | undefined> {
  const endpoint = await findBranchEndpoint(tx, branch.id)
  if (endpoint?.current_state !== 'active') return undefined
  const compute = await context.computes.find(refOf(branch))
  if (!compute) {
    await setIdle(tx, endpoint.id, 'crash')
    return undefined
  }
  if (compute.id !== endpoint.compute_id) await activate(context, tx, endpoint, branch, compute)
  return { endpoint, compute }
}

async function applyTo(
  branch: StoredBranch,
  operation: Claimed,
  context: WorkerContext,
  tx: Db,
): Promise<ChangesOutcome | undefined> {
  const running = await runningOf(branch, context, tx)
  if (!running) return undefined
  const options = { purpose: 'apply_config' }
  return withAdminSession(running.compute.address, context.secrets.stores, options, (session) =>
    applyConfig(context, session, tx, branch, operation.seq),
  )
}
