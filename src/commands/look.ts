import { type Branch, findBranch } from '../catalog/branch.ts'
import { agreesWith, lockConfig, noteConfig, type SeenConfig } from '../catalog/branch_config.ts'
import type { Db } from '../catalog/catalog.ts'
import { computeAddress } from '../catalog/compute.ts'
import { type Endpoint, findBranchEndpoint } from '../catalog/endpoint.ts'
import { findProject } from '../catalog/project.ts'
import { readConfig } from '../compute_admin/roles.ts'
import { readLsn } from '../compute_admin/wal_slot.ts'
import { LOOK_TIMEOUT_MS, withAdminSession } from '../compute_admin/session.ts'
import type { Context } from '../context.ts'
import { createSharedRuns } from '../shared_runs.ts'
import type { CommandContext } from './command.ts'
import { type BranchId, requireBranch, requireProject } from './require.ts'

/**
 * Roles and databases read from a compute. Valid only while that compute is the branch's and no change was made since.
 */
export interface Look {
  readonly endpoint: Endpoint
  /** The config version that Postgres had at the reading; undefined if changes were still to be applied. */
  readonly version: number | undefined
  readonly seen: SeenConfig
  /** Up to where Postgres had written its WAL. */
  readonly lsn: string
}

/**
 * Reads roles and databases from the compute of a branch. Returns undefined when no compute runs or it does not answer
 * in time.
 */
export async function lookAtConfig(
  { config, secrets, log }: Context,
  db: Db,
  branch: Branch,
): Promise<Look | undefined> {
  const endpoint = await findBranchEndpoint(db, branch.id)
  if (endpoint?.current_state !== 'active') return undefined
  const address = computeAddress(endpoint)
  if (!address) return undefined
  const options = { purpose: 'look', timeoutMs: LOOK_TIMEOUT_MS }
  try {
    const { seen, lsn } = await withAdminSession(address, secrets.stores, options, async (session) => ({
      seen: await readConfig(session, config),
      lsn: await readLsn(session),
    }))
    const told = branch.applied_version >= branch.config_version
    return { endpoint, version: told ? branch.config_version : undefined, seen, lsn }
  } catch (error) {
    log.debug({ err: error, branch: branch.id }, 'could not read the roles and databases of a compute')
    return undefined
  }
}

/** A reading costs the compute a session: requests that come while one is under way share the next. */
const share = createSharedRuns<Look | undefined>()

/**
 * Reads roles and databases from the compute of the caller's branch. Call before the transaction that changes them: it
 * may take a while. Returns undefined when there is no such branch, or no compute that answers.
 */
export async function lookAtBranch(context: CommandContext, id: BranchId): Promise<Look | undefined> {
  const project = await findProject(context.db, context.account.id, id.project_id)
  const branch = project && (await findBranch(context.db, project.id, id.branch_id))
  return branch && share(branch.id, () => lookAtConfig(context, context.db, branch))
}

/** Updates the rows of a branch from a reading if it is current. */
export async function noteLook(tx: Db, branch: Branch, look: Look): Promise<void> {
  if (await isCurrent(tx, look)) await noteConfig(tx, branch, look.seen)
}

/**
 * Whether a reading says what its branch has: not if changes were still to be applied to Postgres, or it may be out of
 * date. An endpoint with a pending state may have been read at the compute of another branch. Locks the branch's roles
 * and databases until the transaction ends.
 */
export async function isCurrent(tx: Db, { endpoint, version }: Look): Promise<boolean> {
  const { branch_id } = endpoint
  const [locked, now] = await Promise.all([lockConfig(tx, branch_id), findBranchEndpoint(tx, branch_id)])
  if (version === undefined || locked?.config_version !== version || locked.applied_version < version) return false
  if (now?.current_state !== 'active' || now.pending_state !== null) return false
  return now.id === endpoint.id && now.compute_id === endpoint.compute_id
}

/**
 * The caller's branch, and the reading of its compute if one runs and answers in time, after which the catalog's rows
 * of roles and databases agree with Postgres. Does not wake an idle endpoint. Errors: NOT_FOUND.
 */
export async function readBranch(
  context: CommandContext,
  params: BranchId,
): Promise<{ branch: Branch; seen: SeenConfig | undefined }> {
  await requireProject(context, params.project_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  const look = await lookAtConfig(context, context.db, branch)
  if (look && !(await agreesWith(context.db, branch.id, look.seen)))
    await context.catalog.transaction((tx) => noteLook(tx, branch, look))
  return { branch, seen: look?.seen }
}
