import { type Branch, findBranch } from '../catalog/branch.ts'
import { agreesWith, lockConfig, noteConfig, type SeenConfig } from '../catalog/branch_config.ts'
import type { Db } from '../catalog/catalog.ts'
import { computeAddress, type Endpoint, findBranchEndpoint } from '../catalog/endpoint.ts'
import { findProject } from '../catalog/project.ts'
import { readConfig } from '../compute_admin/roles.ts'
import { LOOK_TIMEOUT_MS, withAdminSession } from '../compute_admin/session.ts'
import type { Context } from '../context.ts'
import type { CommandContext } from './command.ts'
import { type BranchId, requireBranch, requireProject } from './require.ts'

/** What was seen at a compute, and at which: it counts only while that one is still the branch's and nothing was changed since. */
export interface Look {
  readonly endpoint: Endpoint
  /** Of what Postgres had been told all; nothing where it had yet to be told something when it was asked. */
  readonly version: number | undefined
  readonly seen: SeenConfig
}

/** Asks the running compute of a branch what it has. Nothing where none runs, or where it does not answer soon. */
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
    const seen = await withAdminSession(address, secrets.stores, options, (session) => readConfig(session, config))
    const told = branch.applied_version >= branch.config_version
    return { endpoint, version: told ? branch.config_version : undefined, seen }
  } catch (error) {
    log.debug({ err: error, branch: branch.id }, 'a compute did not say what roles and databases it has')
    return undefined
  }
}

/**
 * Asks the running compute of the caller's branch for its roles and databases, before a transaction that changes them: it may take a while.
 * Answers nothing where there is no such branch, or no compute that answers.
 */
export async function lookAtBranch(context: CommandContext, id: BranchId): Promise<Look | undefined> {
  const project = await findProject(context.db, context.account.id, id.project_id)
  const branch = project && (await findBranch(context.db, project.id, id.branch_id))
  return branch && lookAtConfig(context, context.db, branch)
}

/**
 * Writes down what was seen at a compute, unless Postgres had yet to be told something, or it may be out of date by now. An endpoint
 * that is on its way elsewhere may have left the compute of another branch behind.
 */
export async function noteLook(tx: Db, branch: Branch, { endpoint, version, seen }: Look): Promise<void> {
  const locked = await lockConfig(tx, branch.id)
  const now = await findBranchEndpoint(tx, branch.id)
  if (version === undefined || locked?.config_version !== version || locked.applied_version < version) return
  if (now?.current_state !== 'active' || now.pending_state !== null) return
  if (now.id !== endpoint.id || now.compute_pid !== endpoint.compute_pid) return
  await noteConfig(tx, branch, seen)
}

/**
 * The caller's branch, with its roles and databases in the catalog as Postgres has them now, where its compute runs and answers soon,
 * and what that said. One that sleeps is not woken. Errors: NOT_FOUND.
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
