/*
 * Sees that the data of a branch is there and that its compute can start. One that sleeps is started for that without the proxies being
 * told, so that nobody is cut off when it is stopped again: who connects meanwhile queues a start behind this, and is let in.
 *
 *   compute_runs ─▶ probe_answered ─▶ still_unused ─▶ compute_stopped
 *                         │                └─ somebody came ─▶ compute_answers
 *                         └─ it was awake ─▶ (done)
 *
 * `last_active` and `suspended_at` stay as they are, unless somebody came.
 */
import { findStoredBranch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { type Endpoint, findEndpoint, findEndpointEver, setIdle, settlePending } from '../catalog/endpoint.ts'
import { failuresOf, type Operation, unfinishedOperations } from '../catalog/operation.ts'
import { hasClients, probe } from '../compute_admin/probe.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import type { WorkerContext } from '../context.ts'
import { type Claimed, done, goto, OperationFailed, type StepOutcome, wait } from '../engine/definition.ts'
import { messageOf } from '../errors.ts'
import { type Action, branchOf, fenceOf, refOf, requestOperation } from './request.ts'
import { bringUp, specOf, subjectOf } from './start_compute.ts'

/** So often it is tried; not for long, since a client that connects stands behind it. */
const TRIES = 4

const PURPOSE = { purpose: 'check' }

export const checkAvailability: Action<object> = {
  action: 'check_availability',
  deadlineSeconds: 600,
  needsBranches: true,
  locks: (subject) => ({ excludes: [subject.branch_id as string] }),
  steps: {
    async compute_runs(operation, { backend }, tx) {
      const endpoint = await endpointToCheck(tx, operation)
      if (!endpoint) return goto('compute_stopped')
      const branch = await branchOf(tx, operation)
      if (endpoint.current_state === 'active') {
        if (await backend.findCompute(refOf(branch))) return undefined
        // It was killed: from here on it is one that sleeps.
        await setIdle(tx, endpoint.id)
        await settlePending(tx, endpoint.id)
        return wait(0, 'the compute is gone and is started anew')
      }
      const compute = await tried(operation, tx, () =>
        backend.startCompute(refOf(branch), specOf(endpoint, branch), fenceOf(operation)),
      )
      return compute === 'pending' ? wait(0, 'Postgres recovers after a crash') : undefined
    },
    async probe_answered(operation, { backend, secrets }, tx) {
      const endpoint = await endpointToCheck(tx, operation)
      if (!endpoint) return goto('compute_stopped')
      const compute = await backend.findCompute(refOf(await branchOf(tx, operation)))
      if (!compute)
        throw new OperationFailed(
          'Postgres ended while it was checked. Its log says why; the next connection starts it.',
        )
      await tried(operation, tx, () => withAdminSession(compute.address, secrets.stores, PURPOSE, probe))
      return endpoint.current_state === 'active' ? done : undefined
    },
    async still_unused(operation, { backend, secrets }, tx) {
      if (!(await endpointToCheck(tx, operation))) return undefined
      const branch = await branchOf(tx, operation)
      const behind = await unfinishedOperations(tx, branch.id)
      if (behind.some(({ action }) => action === 'start_compute')) return goto('compute_answers')
      const compute = await backend.findCompute(refOf(branch))
      const used = compute && (await withAdminSession(compute.address, secrets.stores, PURPOSE, hasClients))
      return used ? goto('compute_answers') : undefined
    },
    compute_stopped: stopUnlessActive,
    async compute_answers(operation, context, tx) {
      if (!(await endpointToCheck(tx, operation))) return goto('compute_stopped')
      return bringUp(operation, context, tx)
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

/** The endpoint, while it is to be checked: nothing if it was deleted, disabled or moved since that was asked for. */
async function endpointToCheck(tx: Db, operation: Claimed): Promise<Endpoint | undefined> {
  const endpoint = await findEndpoint(tx, operation.endpoint_id ?? '')
  return endpoint && !endpoint.disabled && endpoint.branch_id === operation.branch_id ? endpoint : undefined
}

/** Fails for good what was tried often enough. */
async function tried<T>(operation: Claimed, tx: Db, work: () => Promise<T>): Promise<T> {
  const failures = await failuresOf(tx, operation.id)
  try {
    return await work()
  } catch (error) {
    if (failures + 1 < TRIES) throw error
    throw new OperationFailed(
      `the branch is not available: ${messageOf(error)}. Start its endpoint to try again; what Postgres says stands in its log.`,
    )
  }
}

/** An endpoint that is active has clients, and its compute is not this operation's to stop; one that was killed is noted. */
async function stopUnlessActive(operation: Claimed, { backend }: WorkerContext, tx: Db): Promise<StepOutcome> {
  const branch = await findStoredBranch(tx, operation.branch_id ?? '')
  const endpoint = await findEndpointEver(tx, operation.endpoint_id ?? '')
  if (endpoint?.current_state === 'active') {
    if (branch && endpoint.branch_id === branch.id && !(await backend.findCompute(refOf(branch))))
      await setIdle(tx, endpoint.id)
    return done
  }
  if (branch && (await backend.stopCompute(refOf(branch), fenceOf(operation))) === 'pending')
    return wait(0, 'Postgres is stopping')
  return done
}
