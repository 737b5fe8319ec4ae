/*
 * Checks that a branch's data is readable and that its compute can start. A sleeping compute is started without
 * notifying the proxies, so that its stop cuts off no client. A client that connects meanwhile queues a start behind
 * the check and is let in.
 *
 *   compute_runs ─▶ probe_answered ─▶ still_unused ─▶ compute_stopped
 *                         │                └─ a client connected ─▶ compute_answers
 *                         └─ the endpoint was active ─▶ (done)
 *
 * `last_active` and `suspended_at` do not change unless a client connected.
 */
import { findStoredBranch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { setIdle } from '../catalog/compute.ts'
import { type Endpoint, findEndpoint, findEndpointEver, settlePending } from '../catalog/endpoint.ts'
import { failuresOf, type Operation, unfinishedOperations } from '../catalog/operation.ts'
import { leaveRoom } from '../catalog/room.ts'
import { hasClients, probe } from '../compute_admin/probe.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import type { WorkerContext } from '../context.ts'
import { type Claimed, done, goto, OperationFailed, type StepOutcome, wait, watching } from '../engine/definition.ts'
import { messageOf } from '../errors.ts'
import { type Action, branchOf, fenceOf, ownedRefOf, refOf, requestOperation, stopCompute } from './request.ts'
import { startAndActivate, specOf, subjectOf } from './start_compute.ts'

/** Failures until the operation fails; few, since a client that connects waits behind the check. */
const TRIES = 4

const PURPOSE = { purpose: 'check' }

export const checkAvailability: Action<object> = {
  action: 'check_availability',
  deadlineSeconds: 600,
  needsBranches: true,
  locks: (subject) => ({ excludes: [subject.branch_id as string], passesShared: true }),
  steps: {
    async compute_runs(operation, context, tx) {
      const { computes } = context
      const endpoint = await endpointToCheck(tx, operation)
      if (!endpoint) return goto('compute_stopped')
      const branch = await branchOf(tx, operation)
      if (endpoint.current_state === 'active') {
        if (await computes.find(refOf(branch))) return undefined
        // The compute was killed: from here on the endpoint counts as idle.
        await setIdle(tx, endpoint.id, 'crash')
        await settlePending(tx, endpoint.id)
        return wait(0, 'the compute is gone and is started anew')
      }
      const store = await ownedRefOf(context, branch)
      const compute = await tried(operation, tx, () =>
        computes.start(store, { ...specOf(endpoint, branch), serves: false }, fenceOf(operation)),
      )
      return compute === 'pending'
        ? watching(computes.settled(refOf(branch)), await computes.readProgress(refOf(branch)))
        : undefined
    },
    async probe_answered(operation, { computes, secrets }, tx) {
      const endpoint = await endpointToCheck(tx, operation)
      if (!endpoint) return goto('compute_stopped')
      const compute = await computes.find(refOf(await branchOf(tx, operation)))
      if (!compute)
        throw new OperationFailed(
          'Postgres ended while it was checked. Its log says why; the next connection starts it.',
        )
      await tried(operation, tx, () => withAdminSession(compute.address, secrets.stores, PURPOSE, probe))
      return endpoint.current_state === 'active' ? done : undefined
    },
    async still_unused(operation, { computes, secrets }, tx) {
      if (!(await endpointToCheck(tx, operation))) return undefined
      const branch = await branchOf(tx, operation)
      const behind = await unfinishedOperations(tx, branch.id)
      if (behind.some(({ action }) => action === 'start_compute')) return goto('compute_answers')
      const compute = await computes.find(refOf(branch))
      const used = compute && (await withAdminSession(compute.address, secrets.stores, PURPOSE, hasClients))
      return used ? goto('compute_answers') : undefined
    },
    compute_stopped: stopUnlessActive,
    async compute_answers(operation, context, tx) {
      if (!(await endpointToCheck(tx, operation))) return goto('compute_stopped')
      return startAndActivate(operation, context, tx)
    },
  },
  async onFailure(operation, context, tx) {
    const outcome = await stopUnlessActive(operation, context, tx)
    return 'wait' in outcome ? outcome : undefined
  },
}

/** Queues the check of an endpoint's branch. Call with the project locked. */
export async function queueCheck(tx: Db, endpoint: Endpoint): Promise<Operation> {
  return requestOperation(tx, checkAvailability, subjectOf(endpoint), {})
}

/** The endpoint to check. Returns undefined when it was deleted, disabled or moved since the check was queued. */
async function endpointToCheck(tx: Db, operation: Claimed): Promise<Endpoint | undefined> {
  const endpoint = await findEndpoint(tx, operation.endpoint_id ?? '')
  return endpoint && !endpoint.disabled && endpoint.branch_id === operation.branch_id ? endpoint : undefined
}

/** Runs `work`; the last allowed failure fails the operation. */
async function tried<T>(operation: Claimed, tx: Db, work: () => Promise<T>): Promise<T> {
  const failures = await failuresOf(tx, operation.id)
  try {
    return await work()
  } catch (error) {
    if (failures + 1 < TRIES) throw error
    throw new OperationFailed(
      `the branch is not available: ${messageOf(error)}. Start its endpoint to try again; ` +
        'the Postgres log has the error.',
    )
  }
}

/**
 * Stops the compute, unless its endpoint is active and so has clients. An active endpoint whose compute was killed
 * becomes idle.
 */
async function stopUnlessActive(operation: Claimed, context: WorkerContext, tx: Db): Promise<StepOutcome> {
  const branch = await findStoredBranch(tx, operation.branch_id ?? '')
  const endpoint = await findEndpointEver(tx, operation.endpoint_id ?? '')
  if (endpoint?.current_state === 'active') {
    if (branch && endpoint.branch_id === branch.id && !(await context.computes.find(refOf(branch))))
      await setIdle(tx, endpoint.id, 'crash')
    return done
  }
  const stopping = branch && (await stopCompute(context, operation, branch))
  if (stopping) return stopping
  if (endpoint) await leaveRoom(tx, endpoint.id)
  return done
}
