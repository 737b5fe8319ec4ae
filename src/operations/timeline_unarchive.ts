import { setBranchArchived } from '../catalog/archived_branch.ts'
import { findStoredBranch } from '../catalog/branch.ts'
import { OperationFailed, waitUntil } from '../engine/definition.ts'
import { type Action, fenceOf, refOf, UNARCHIVE } from './request.ts'

/** Brings the data of an archived branch back. Requested with the first operation that needs them (request.ts). */
export const timelineUnarchive: Action<Record<string, never>> = {
  action: UNARCHIVE.action,
  // A client waits.
  lane: 'start',
  deadlineSeconds: UNARCHIVE.deadline_seconds,
  needsBranches: false,
  locks: (subject) => ({ excludes: [subject.branch_id as string], passesShared: true }),
  steps: {
    async [UNARCHIVE.step](operation, { storage }, tx) {
      const branch = await findStoredBranch(tx, operation.branch_id as string)
      if (!branch) throw new OperationFailed('the branch was deleted')
      if ((await storage.unpack(refOf(branch), fenceOf(operation))) === 'pending')
        return waitUntil(storage.filled(refOf(branch)), 'the archived data are being brought back')
      return undefined
    },
    async branch_ready(operation, _context, tx) {
      await setBranchArchived(tx, operation.branch_id as string, false)
    },
  },
  async onFailure(operation, { storage }, tx) {
    const branch = await findStoredBranch(tx, operation.branch_id as string)
    if (!branch) return undefined
    const store = refOf(branch)
    // The program that brings them back may run on. Where it failed, the data are still packed.
    const progress = await storage.unpack(store, fenceOf(operation)).catch(() => 'done' as const)
    if (progress === 'pending') return waitUntil(storage.filled(store), 'the archived data are being brought back')
    await setBranchArchived(tx, branch.id, await storage.isPacked(store))
    return undefined
  },
}
