import { type Branch, setAppliedVersion, type StoredBranch } from '../catalog/branch.ts'
import { lockConfig, noteConfig, type SeenConfig, setNoted } from '../catalog/branch_config.ts'
import type { Db } from '../catalog/catalog.ts'
import { countChanges, listChanges, removeChanges } from '../catalog/config_change.ts'
import { wantsReplication } from '../catalog/project.ts'
import { listRoles } from '../catalog/role.ts'
import { applyChanges, type ChangesOutcome } from '../compute_admin/changes.ts'
import { ensureReplication, readConfig, setPassword } from '../compute_admin/roles.ts'
import { type AdminSession, LOOK_TIMEOUT_MS, withAdminSession } from '../compute_admin/session.ts'
import type { ComputeAddress } from '../compute/compute.ts'
import type { WorkerContext } from '../context.ts'
import type { Wall } from '../walls.ts'
import { refOf } from './request.ts'

/**
 * Applies changed roles and databases of a branch to its running compute, for a start and for apply_config. Changes
 * that are not settled stay in the catalog for the next time.
 * @param seq of the apply_config: changes of later operations are left to those, so that each reports on its own
 */
export async function applyConfig(
  { computes }: WorkerContext,
  session: AdminSession,
  tx: Db,
  branch: Branch,
  seq?: number,
): Promise<ChangesOutcome> {
  const outcome = await applyChanges(session, await listChanges(tx, branch.id, seq))
  const replicates = (await wantsReplication(tx, branch.project_id)) && mayReplicate(await computes.walls())
  await ensureReplication(session, replicates)
  await removeChanges(tx, branch.id, outcome.settled)
  if ((await countChanges(tx, branch.id)) === 0) await setAppliedVersion(tx, branch.id, branch.config_version)
  return outcome
}

/** Behind this wall a compute cannot load a library that a tenant wrote, such as an output plugin named by its path. */
export const mayReplicate = (walls: readonly Wall[]): boolean => walls.includes('files')

/**
 * Runs `stop` after recording the branch's roles and databases in the catalog. A table lock prevents changes to them
 * from the reading until the compute has stopped. A compute that does not answer is stopped without it.
 */
export async function withNotedConfig<T>(
  { computes, catalog, config, secrets, log }: WorkerContext,
  branch: StoredBranch,
  stop: () => Promise<T>,
): Promise<T> {
  const isGone = branch.deleted_at !== null && branch.recoverable_until === null
  const compute = isGone ? undefined : await computes.find(refOf(branch))
  if (!compute) return stop()
  let noted = false
  const options = { purpose: 'suspend', timeoutMs: LOOK_TIMEOUT_MS }
  try {
    return await withAdminSession(compute.address, secrets.stores, options, async (session) => {
      await session.query('begin')
      // A transaction with uncommitted changes blocks the lock. It cannot commit them: the stop comes first.
      await session.query(`savepoint unlocked; set local lock_timeout = '500ms'`)
      await session
        .query('lock table pg_catalog.pg_authid, pg_catalog.pg_database in share mode')
        .catch(() => session.query('rollback to savepoint unlocked'))
      const seen = await readConfig(session, config)
      await catalog.transaction(async (tx) => {
        if (await noteSeen(tx, branch, seen)) await setNoted(tx, branch.id, true)
      })
      noted = true
      return stop()
    })
  } catch (error) {
    if (noted) throw error
    log.warn({ err: error, branch: branch.id }, 'a compute stops before its roles and databases were read')
    return stop()
  }
}

/**
 * Gives a branch the roles and databases of its data at a moment, with the changes requested since. Roles have the
 * passwords of now: one that was changed since, because others knew it, does not come back.
 */
export async function takeConfig(
  context: WorkerContext,
  address: ComputeAddress,
  tx: Db,
  branch: StoredBranch,
): Promise<void> {
  const { secrets, config } = context
  await lockConfig(tx, branch.id)
  const known = new Map((await listRoles(tx, branch.id)).map(({ name, verifier }) => [name, verifier]))
  const seen = await withAdminSession(address, secrets.stores, { purpose: 'moment' }, async (session) => {
    for (const { name, verifier } of (await readConfig(session, config)).roles) {
      const present = known.get(name)
      if (present && verifier && present !== verifier)
        await setPassword(session, { kind: 'set_password', name, verifier: present })
    }
    await applyConfig(context, session, tx, branch)
    return readConfig(session, config)
  })
  await noteConfig(tx, branch, seen)
}

/** Records the roles and databases that Postgres has. Returns false when changes are still to be applied to it. */
async function noteSeen(tx: Db, branch: Branch, seen: SeenConfig): Promise<boolean> {
  const versions = await lockConfig(tx, branch.id)
  if (!versions || versions.applied_version < versions.config_version) return false
  await noteConfig(tx, branch, seen)
  return true
}
