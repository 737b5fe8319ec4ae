import { findStoredBranch, setBranchFailed, setBranchReady } from '../catalog/branch.ts'
import { OperationFailed, wait } from '../engine/definition.ts'
import { type Action, branchOf, fenceOf, refOf } from './request.ts'

/** Makes a branch as a clone of its parent. Many children of one parent are made side by side. */
export const createBranch: Action<{ parent_id: string }> = {
  action: 'create_branch',
  deadlineSeconds: 6 * 3600,
  needsBranches: true,
  locks: (subject, { parent_id }) => ({ excludes: [subject.branch_id as string], shares: [parent_id] }),
  steps: {
    async branch_stored(operation, { backend }, tx) {
      const branch = await branchOf(tx, operation)
      if (branch.deleted_at) throw new OperationFailed('cancelled: the branch was deleted')
      const parent = await findStoredBranch(tx, operation.input.parent_id)
      if (!parent) throw new OperationFailed(`the parent ${operation.input.parent_id} is gone`)
      const progress = await backend.cloneBranch(refOf(branch), refOf(parent), fenceOf(operation))
      return progress === 'pending' ? wait(0, 'the parent is being copied') : undefined
    },
    async branch_ready(operation, _context, tx) {
      await setBranchReady(tx, (await branchOf(tx, operation)).id)
    },
  },
  async onFailure(operation, _context, tx) {
    await setBranchFailed(tx, (await branchOf(tx, operation)).id)
  },
}
