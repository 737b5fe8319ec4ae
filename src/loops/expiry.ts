import { findBranch, hasChildren, listExpired } from '../catalog/branch.ts'
import { lockProject } from '../catalog/project.ts'
import { removeBranch } from '../commands/delete_branch.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 5_000

/**
 * Deletes expired branches. A branch with children waits for theirs to expire; protected and default branches have no
 * expiry.
 */
export function startExpiryLoop({ catalog, log }: WorkerContext): Loop {
  const expire = async (): Promise<void> => {
    for (const { id, account_id, project_id } of await listExpired(catalog)) {
      await catalog.transaction(async (tx) => {
        if (!(await lockProject(tx, account_id, project_id))) return
        const branch = await findBranch(tx, project_id, id)
        if (!branch?.expires_at || Date.parse(branch.expires_at) > Date.now()) return
        if (await hasChildren(tx, id)) return
        await removeBranch(tx, branch)
        log.info({ branch: id }, 'a branch has expired')
      })
    }
  }
  return startPeriodic(EVERY_MS, expire, (error) => log.warn({ err: error }, 'could not delete expired branches'))
}
