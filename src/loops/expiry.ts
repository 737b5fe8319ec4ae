import { findAccount } from '../catalog/account.ts'
import { type Branch, findBranch, hasChildren, listExpired } from '../catalog/branch.ts'
import { lockProject } from '../catalog/project.ts'
import { listExpiredSnapshots } from '../catalog/snapshot.ts'
import { limitsOf } from '../commands/account_limits.ts'
import { removeBranch } from '../commands/delete_branch.ts'
import { expireSnapshot } from '../commands/snapshot.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 5_000

/**
 * Deletes expired branches and snapshots. A branch with children waits for theirs to expire; protected and default
 * branches have no expiry.
 */
export function startExpiryLoop(context: ExpiryContext): Loop {
  const { catalog, log } = context
  const expire = async (): Promise<void> => {
    // Each by itself: one that fails holds up no other.
    for (const branch of await listExpired(catalog))
      await expireBranch(context, branch).catch((error: unknown) =>
        log.warn({ err: error, branch: branch.id }, 'could not delete an expired branch'),
      )
    for (const snapshot of await listExpiredSnapshots(catalog))
      await catalog
        .transaction((tx) => expireSnapshot(tx, snapshot))
        .then(
          (expired) => expired && log.info({ snapshot: snapshot.id }, 'a snapshot has expired'),
          (error: unknown) => log.warn({ err: error, snapshot: snapshot.id }, 'could not remove an expired snapshot'),
        )
  }
  return startPeriodic(EVERY_MS, expire, (error) =>
    log.warn({ err: error }, 'could not list expired branches and snapshots'),
  )
}

type ExpiryContext = Pick<WorkerContext, 'catalog' | 'config' | 'log'>

async function expireBranch(
  { catalog, config, log }: ExpiryContext,
  { id, account_id, project_id }: Pick<Branch, 'id' | 'account_id' | 'project_id'>,
): Promise<void> {
  await catalog.transaction(async (tx) => {
    if (!(await lockProject(tx, account_id, project_id))) return
    const branch = await findBranch(tx, project_id, id)
    if (!branch?.expires_at || Date.parse(branch.expires_at) > Date.now()) return
    if (await hasChildren(tx, id)) return
    const account = await findAccount(tx, account_id)
    if (!account) return
    const limits = { hours: config.branchRecoverHours, most: limitsOf({ account, config }).branches }
    await removeBranch(tx, branch, { ...limits, method: 'ttl' })
    log.info({ branch: id }, 'a branch has expired')
  })
}
