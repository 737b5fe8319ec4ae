import { type Branch, hasChildren, setDefaultBranch, updateBranch } from '../catalog/branch.ts'
import { AppError } from '../errors.ts'
import type { CommandContext } from './command.ts'
import { type BranchId, lockedProject, requireBranch, requireExpiry, requireFreeBranchName } from './require.ts'

/** The attributes of a branch that a request may change. Null removes the expiry, and a retention of its own. */
export interface BranchChanges {
  readonly name?: string
  readonly protected?: boolean
  readonly expires_at?: string | null
  readonly history_retention_seconds?: number | null
}

/** Changes the given attributes of a branch. Errors: NOT_FOUND, LOCKED, BRANCH_ALREADY_EXISTS, NOT_ALLOWED. */
export async function changeBranch(context: CommandContext, id: BranchId, asked: BranchChanges): Promise<Branch> {
  const { db } = context
  const project = await lockedProject(context, id.project_id)
  const before = await requireBranch(context, project.id, id.branch_id)
  const { name, expires_at, history_retention_seconds, protected: isProtected = before.protected } = asked
  if (name !== undefined && name !== before.name) await requireFreeBranchName(context, project.id, name)
  if (expires_at && (isProtected || before.is_default || (await hasChildren(db, before.id))))
    throw new AppError('NOT_ALLOWED', 'A default or protected branch, or one that has children, cannot expire.')
  if (before.expires_at && expires_at === undefined && isProtected)
    throw new AppError('NOT_ALLOWED', 'The branch expires: take that away first with expires_at: null.')
  return updateBranch(db, before.id, {
    name,
    protected: isProtected,
    expires_at: expires_at && requireExpiry(expires_at),
    history_retention_seconds,
  })
}

/** Makes a branch the default one of its project. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED (it expires). */
export async function makeBranchDefault(context: CommandContext, { project_id, branch_id }: BranchId): Promise<Branch> {
  const project = await lockedProject(context, project_id)
  const { id, expires_at } = await requireBranch(context, project.id, branch_id)
  if (expires_at) throw new AppError('NOT_ALLOWED', 'The branch expires: take that away first with expires_at: null.')
  return setDefaultBranch(context.db, project.id, id)
}
