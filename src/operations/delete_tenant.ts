import { randomInt } from 'node:crypto'
import { deleteBranchData, listStoredBranches, type StoredBranch } from '../catalog/branch.ts'
import { moveToHost } from '../catalog/operation.ts'
import { deleteProject } from '../catalog/project.ts'
import type { WorkerContext } from '../context.ts'
import { type Claimed, wait } from '../engine/definition.ts'
import { type Action, fenceOf, refOf } from './request.ts'
import { countStoreWal } from './store_wal.ts'

/** How many computes are stopped and stores removed side by side: both wait for processes, and use little CPU. */
const AT_ONCE = 16
/** For how long a step begins with further stores. */
const STEP_MS = 3_000

/**
 * Removes all stored data of a deleted project. Its transactions are short and apart from the operation's own: no row
 * of the project is locked while a compute stops or files are removed.
 */
export const deleteTenant: Action<Record<string, never>> = {
  action: 'delete_tenant',
  deadlineSeconds: 3600,
  needsBranches: false,
  locks: (subject) => ({ excludes: [subject.project_id] }),
  steps: {
    async stores_removed(operation, context, tx) {
      const { catalog, hostId } = context
      // A recoverable project kept its branches and endpoints until now.
      await catalog.transaction((own) => deleteProject(own, operation.project_id))
      const branches = await listStoredBranches(catalog, operation.project_id)
      const here = branches.filter((branch) => branch.host_id === hostId)
      if (!(await removeAll(operation, context, here))) return wait(0, 'computes stop and files are removed')
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

/**
 * Removes the stores of these branches. Returns false when some are left for the next turn. Each turn begins with
 * another one, and one that fails holds up no other. Errors: the first one of these.
 */
async function removeAll(
  operation: Claimed,
  { storage, catalog }: WorkerContext,
  branches: readonly StoredBranch[],
): Promise<boolean> {
  const deadline = performance.now() + STEP_MS
  const left = new Set(branches)
  const first = randomInt(branches.length + 1)
  const waiting = [...branches.slice(first), ...branches.slice(0, first)]
  let failure: { readonly error: unknown } | undefined

  async function remove(branch: StoredBranch): Promise<void> {
    await countStoreWal(storage, catalog, branch.store_id)
    if ((await storage.remove(refOf(branch), fenceOf(operation))) === 'pending') return
    await catalog.transaction((own) => deleteBranchData(own, branch.id))
    left.delete(branch)
  }

  async function removeNext(): Promise<void> {
    for (let branch = waiting.shift(); branch && performance.now() < deadline; branch = waiting.shift())
      await remove(branch).catch((error: unknown) => void (failure ??= { error }))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, removeNext))
  if (failure) throw failure.error
  return left.size === 0
}
