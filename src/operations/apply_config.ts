import { findBranchEndpoint } from '../catalog/endpoint.ts'
import { withAdminSession } from '../compute/session.ts'
import { applyConfig } from './config.ts'
import { type Action, branchOf } from './request.ts'

/** Makes changed roles and databases real on a running compute; on a sleeping one its next start does. */
export const applyConfigOperation: Action<Record<string, never>> = {
  action: 'apply_config',
  deadlineSeconds: 120,
  needsBranches: true,
  locks: (subject) => ({ excludes: [subject.branch_id as string] }),
  steps: {
    async config_applied(operation, { secrets }, tx) {
      const branch = await branchOf(tx, operation)
      const endpoint = await findBranchEndpoint(tx, branch.id)
      if (endpoint?.current_state !== 'active' || !endpoint.compute_host || !endpoint.compute_port) return
      const address = { host: endpoint.compute_host, port: endpoint.compute_port }
      await withAdminSession(address, secrets.adminPassword(), { purpose: 'apply_config' }, (session) =>
        applyConfig(session, tx, branch),
      )
    },
  },
  // The catalog keeps what is wanted; the next apply_config or start tries again.
  async onFailure() {},
}
