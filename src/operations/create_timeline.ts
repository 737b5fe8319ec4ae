import { setBranchFailed, setBranchReady } from '../catalog/branch.ts'
import { setStoreReady } from '../catalog/store.ts'
import { waitForCopy } from './copying.ts'
import { type Action, branchOf, fenceOf, ownedRefOf, refOf } from './request.ts'
import { countStoreWal } from './store_wal.ts'

/** Creates the first branch of a new project from the template of its Postgres version. */
export const createTimeline: Action<Record<string, never>> = {
  action: 'create_timeline',
  deadlineSeconds: 300,
  needsBranches: false,
  locks: (subject) => ({ excludes: [subject.project_id] }),
  steps: {
    async template_ready(operation, { storage }, tx) {
      await storage.prepare((await branchOf(tx, operation)).pg_version)
    },
    async branch_stored(operation, context, tx) {
      const { storage } = context
      const branch = await branchOf(tx, operation)
      const progress = await storage.create(await ownedRefOf(context, branch), fenceOf(operation))
      if (progress === 'pending') return waitForCopy(storage, refOf(branch), 'the template is being copied')
      await setStoreReady(tx, branch.store_id)
      await countStoreWal(storage, tx, branch.store_id)
      return undefined
    },
    async branch_ready(operation, _context, tx) {
      await setBranchReady(tx, (await branchOf(tx, operation)).id)
    },
  },
  async onFailure(operation, _context, tx) {
    await setBranchFailed(tx, (await branchOf(tx, operation)).id)
  },
}
