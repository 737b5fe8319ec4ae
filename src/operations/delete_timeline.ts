import { findStoredBranch, deleteBranchData } from '../catalog/branch.ts'
import { wait } from '../engine/definition.ts'
import { type Action, fenceOf, refOf } from './request.ts'
import { countStoreWal } from './store_wal.ts'

/** Removes the stored data of a deleted branch. */
export const deleteTimeline: Action<Record<string, never>> = {
  action: 'delete_timeline',
  deadlineSeconds: 600,
  needsBranches: false,
  locks: (subject) => ({ excludes: [subject.branch_id as string] }),
  steps: {
    async store_removed(operation, { storage, catalog }, tx) {
      const branch = await findStoredBranch(tx, operation.branch_id as string)
      if (!branch) return undefined
      await countStoreWal(storage, catalog, branch.store_id)
      const progress = await storage.remove(refOf(branch), fenceOf(operation))
      return progress === 'pending' ? wait(0.5, 'files are being removed') : undefined
    },
    async forgotten(operation, _context, tx) {
      await deleteBranchData(tx, operation.branch_id as string)
    },
  },
  // The branch stays deleted; the sweep loop removes the remaining files.
  async onFailure() {},
}
