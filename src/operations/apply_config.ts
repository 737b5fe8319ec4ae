import { findStoredBranch, type StoredBranch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { findBranchEndpoint, setIdle } from '../catalog/endpoint.ts'
import type { Failure, Outcome } from '../compute/changes.ts'
import { withAdminSession } from '../compute/session.ts'
import type { WorkerContext } from '../context.ts'
import { type Claimed, OperationFailed, wait } from '../engine/definition.ts'
import { applyConfig } from './config.ts'
import { type Action, branchOf, refOf } from './request.ts'

/**
 * Makes changed roles and databases real on a running compute; on a sleeping one its next start does. It fails where Postgres does
 * not take what it was queued for; what other operations were queued for is theirs to say.
 */
export const applyConfigOperation: Action<Record<string, never>> = {
  action: 'apply_config',
  deadlineSeconds: 120,
  needsBranches: true,
  locks: (subject) => ({ excludes: [subject.branch_id as string] }),
  steps: {
    async config_applied(operation, context, tx) {
      const outcome = await applyTo(await branchOf(tx, operation), operation, context, tx)
      if (!outcome) return undefined
      const own = (failures: Failure[]) =>
        failures
          .filter((failure) => failure.operation_id === operation.id)
          .map((failure) => failure.message)
          .join('; ')
      if (own(outcome.refused)) throw new OperationFailed(own(outcome.refused))
      if (own(outcome.postponed)) throw new Error(own(outcome.postponed))
      return outcome.unfinished ? wait(0, 'roles and databases are being changed') : undefined
    },
  },
  // What Postgres refused is off the list after this; what it could not do yet the next apply_config or start tries again.
  async onFailure(operation, context, tx) {
    const branch = await findStoredBranch(tx, operation.branch_id ?? '')
    if (branch) await applyTo(branch, operation, context, tx)
  },
}

async function applyTo(
  branch: StoredBranch,
  operation: Claimed,
  { backend, secrets }: WorkerContext,
  tx: Db,
): Promise<Outcome | undefined> {
  const endpoint = await findBranchEndpoint(tx, branch.id)
  if (endpoint?.current_state !== 'active') return undefined
  const compute = await backend.findCompute(refOf(branch))
  if (!compute) {
    // It was killed. To go on asking it would keep its next start waiting, which makes all this true.
    await setIdle(tx, endpoint.id)
    return undefined
  }
  const options = { purpose: 'apply_config' }
  return withAdminSession(compute.address, secrets.adminPassword(), options, (session) =>
    applyConfig(session, tx, branch, operation.seq),
  )
}
