import { forgetBranch, listStoredBranches } from '../catalog/branch.ts'
import { deleteProject } from '../catalog/project.ts'
import { wait } from '../engine/definition.ts'
import { type Action, fenceOf, refOf } from './request.ts'

/** Removes all stored data of a deleted project. */
export const deleteTenant: Action<Record<string, never>> = {
  action: 'delete_tenant',
  deadlineSeconds: 3600,
  needsBranches: false,
  locks: (subject) => ({ excludes: [subject.project_id] }),
  steps: {
    async stores_removed(operation, { backend }, tx) {
      const deadline = Date.now() + 3_000
      // A recoverable project kept its branches and endpoints until now.
      await deleteProject(tx, operation.project_id)
      for (const branch of await listStoredBranches(tx, operation.project_id)) {
        const progress = await backend.removeBranch(refOf(branch), fenceOf(operation))
        if (progress === 'pending') return wait(0, 'files are being removed')
        await forgetBranch(tx, branch.id)
        if (Date.now() > deadline) return wait(0, 'more branches follow')
      }
      return undefined
    },
  },
  // The project stays deleted; the sweep loop removes the remaining files.
  async onFailure(operation, _context, tx) {
    await deleteProject(tx, operation.project_id)
  },
}
