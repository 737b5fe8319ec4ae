import { type Branch, findBranch } from '../catalog/branch.ts'
import { hasUnfinishedOperations } from '../catalog/operation.ts'
import { findProject, lockProject, type Project } from '../catalog/project.ts'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'
import type { RequestContext } from './route.ts'

const noProject = (id: string) => new AppError('NOT_FOUND', `project ${id} not found`)

/** The caller's project. Errors: NOT_FOUND, also for another account's. */
export async function requireProject({ db, caller }: RequestContext, id: string): Promise<Project> {
  const project = await findProject(db, caller.account.id, id)
  if (!project) throw noProject(id)
  return project
}

/**
 * The caller's project, locked: what follows in this transaction may insert operations. Errors: NOT_FOUND; where strict locking is
 * set, LOCKED while operations of the project are under way.
 */
export async function lockedProject(
  { db, caller, config }: RequestContext,
  id: string,
  { strict = true } = {},
): Promise<Project> {
  const project = await lockProject(db, caller.account.id, id)
  if (!project) throw noProject(id)
  if (strict && config.strictLocking && (await hasUnfinishedOperations(db, id))) throw new AppError('LOCKED')
  return project
}

/** A branch of a project that is the caller's. Errors: NOT_FOUND. */
export async function requireBranch({ db }: RequestContext, projectId: string, id: string): Promise<Branch> {
  const branch = await findBranch(db, projectId, id)
  if (!branch) throw new AppError('NOT_FOUND', `branch ${id} not found`)
  return branch
}

/** A moment that is still to come, as RFC 3339 in UTC. Errors: INVALID_REQUEST, NOT_ALLOWED (it is over). */
export function requireFuture(field: string, text: string): string {
  const time = Date.parse(text)
  if (Number.isNaN(time)) throw new AppError('INVALID_REQUEST', `invalid request: ${field} is not a date and time`)
  if (time <= Date.now()) throw new AppError('NOT_ALLOWED', `${field} (${text}) is over already.`)
  return new Date(time).toISOString()
}

/** Errors: NOT_ALLOWED for a region that this Neap is not. */
export function requireRegion(config: Config, region: string | undefined): void {
  if (region !== undefined && region !== config.region)
    throw new AppError(
      'NOT_ALLOWED',
      `There is no region ${region} here; this is ${config.region}. Leave region_id out, or give that.`,
    )
}

/** Errors: NOT_FOUND for an organization that is not the caller's own. */
export function requireOrganization({ caller }: RequestContext, id: string | undefined): void {
  if (id !== undefined && id !== caller.account.organization_id)
    throw new AppError('NOT_FOUND', `organization ${id} not found`)
}
