import { type Branch, findBranch } from '../catalog/branch.ts'
import { findProject, lockProject, type Project } from '../catalog/project.ts'
import { AppError } from '../errors.ts'
import type { RequestContext } from './route.ts'

const noProject = (id: string) => new AppError('NOT_FOUND', `project ${id} not found`)

/** The caller's project. Errors: NOT_FOUND, also for another account's. */
export async function requireProject({ db, caller }: RequestContext, id: string): Promise<Project> {
  const project = await findProject(db, caller.account.id, id)
  if (!project) throw noProject(id)
  return project
}

/** The caller's project, locked: what follows in this transaction may insert operations. Errors: NOT_FOUND. */
export async function lockedProject({ db, caller }: RequestContext, id: string): Promise<Project> {
  const project = await lockProject(db, caller.account.id, id)
  if (!project) throw noProject(id)
  return project
}

/** A branch of a project that is the caller's. Errors: NOT_FOUND. */
export async function requireBranch({ db }: RequestContext, projectId: string, id: string): Promise<Branch> {
  const branch = await findBranch(db, projectId, id)
  if (!branch) throw new AppError('NOT_FOUND', `branch ${id} not found`)
  return branch
}
