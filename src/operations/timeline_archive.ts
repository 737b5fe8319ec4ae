/*
 * Archives a branch that was unused for long: its data become one compressed file, which any use brings back first.
 *
 *   data_packed ──▶ branch_archived
 *        └──asked for meanwhile──▶ ended, with its data as before
 */
import { setBranchArchived } from '../catalog/archived_branch.ts'
import { findStoredBranch } from '../catalog/branch.ts'
import { isWaitedFor } from '../catalog/operation.ts'
import { noteProjectSpaceChange } from '../catalog/space.ts'
import { done, waitUntil } from '../engine/definition.ts'
import { type Action, fenceOf, refOf } from './request.ts'

export const timelineArchive: Action<Record<string, never>> = {
  action: 'timeline_archive',
  deadlineSeconds: 6 * 3600,
  needsBranches: false,
  locks: (subject) => ({ excludes: [subject.branch_id as string] }),
  steps: {
    async data_packed(operation, { storage }, tx) {
      const branch = await findStoredBranch(tx, operation.branch_id as string)
      if (!branch) return done
      const isWanted = await isWaitedFor(tx, operation.id)
      const to = [refOf(branch), fenceOf(operation)] as const
      const progress = isWanted ? await storage.unpack(...to) : await storage.pack(...to)
      if (progress === 'pending') return waitUntil(storage.filled(refOf(branch)), 'the data are being compressed')
      if (!isWanted) return undefined
      await setBranchArchived(tx, branch.id, false)
      return done
    },
    async branch_archived(operation, _context, tx) {
      await setBranchArchived(tx, operation.branch_id as string, true)
      await noteProjectSpaceChange(tx, operation.project_id)
    },
  },
  async onFailure(operation, { storage }, tx) {
    const branch = await findStoredBranch(tx, operation.branch_id as string)
    if (!branch) return undefined
    if ((await storage.unpack(refOf(branch), fenceOf(operation))) === 'pending')
      return waitUntil(storage.filled(refOf(branch)), 'the data are left as they were')
    await setBranchArchived(tx, branch.id, false)
    return undefined
  },
}
