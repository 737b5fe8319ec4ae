import { deleteBranchData, listStoredBranches } from '../catalog/branch.ts'
import { moveToHost } from '../catalog/operation.ts'
import { deleteProject } from '../catalog/project.ts'
import { wait } from '../engine/definition.ts'
import { type Action, fenceOf, refOf } from './request.ts'
import { countStoreWal } from './store_wal.ts'

/** Removes all stored data of a deleted project. */
export const deleteTenant: Action<Record<string, never>> = {
  action: 'delete_tenant',
  deadlineSeconds: 3600,
  needsBranches: false,
  locks: (subject) => ({ excludes: [subject.project_id] }),
  steps: {
    async stores_removed(operation, { storage, hostId }, tx) {
      const deadline = Date.now() + 3_000
      // A recoverable project kept its branches and endpoints until now.
      await deleteProject(tx, operation.project_id)
      const branches = await listStoredBranches(tx, operation.project_id)
      for (const branch of branches.filter((each) => each.host_id === hostId)) {
        await countStoreWal(storage, tx, branch.store_id)
        const progress = await storage.remove(refOf(branch), fenceOf(operation))
        if (progress === 'pending') return wait(0, 'files are being removed')
        await deleteBranchData(tx, branch.id)
        if (Date.now() > deadline) return wait(0, 'more branches follow')
      }
      const elsewhere = branches.find((branch) => branch.host_id !== hostId)
      if (!elsewhere) return undefined
      await moveToHost(tx, operation.id, elsewhere.host_id)
      return wait(0, 'the branches on another host follow')
    },
  },
  // The project stays deleted; the sweep loop removes the remaining files.
  async onFailure(operation, _context, tx) {
    await deleteProject(tx, operation.project_id)
  },
}
