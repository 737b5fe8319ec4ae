import { findBranchEndpoint, setIdle } from '../catalog/endpoint.ts'
import { withAdminSession } from '../compute/session.ts'
import { applyConfig } from './config.ts'
import { type Action, branchOf, refOf } from './request.ts'

/** Makes changed roles and databases real on a running compute; on a sleeping one its next start does. */
export const applyConfigOperation: Action<Record<string, never>> = {
  action: 'apply_config',
  deadlineSeconds: 120,
  needsBranches: true,
  locks: (subject) => ({ excludes: [subject.branch_id as string] }),
  steps: {
    async config_applied(operation, { backend, secrets }, tx) {
      const branch = await branchOf(tx, operation)
      const endpoint = await findBranchEndpoint(tx, branch.id)
      if (endpoint?.current_state !== 'active') return
      const compute = await backend.findCompute(refOf(branch))
      // It was killed. To go on asking it would keep its next start waiting, which makes all this true.
      if (!compute) return setIdle(tx, endpoint.id)
      await withAdminSession(compute.address, secrets.adminPassword(), { purpose: 'apply_config' }, (session) =>
        applyConfig(session, tx, branch),
      )
    },
  },
  // The catalog keeps what is wanted; the next apply_config or start tries again.
  async onFailure() {},
}
