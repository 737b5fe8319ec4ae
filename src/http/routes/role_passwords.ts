import { Type } from 'typebox'
import type { Branch } from '../../catalog/branch.ts'
import { isNoted, type SeenConfig } from '../../catalog/branch_config.ts'
import { listChanges } from '../../catalog/config_change.ts'
import { findBranchEndpoint } from '../../catalog/endpoint.ts'
import { type Role, setRolePassword } from '../../catalog/role.ts'
import { AppError } from '../../errors.ts'
import { changeableBranch, queueChanges, readBranch } from '../branch_config.ts'
import { type RequestContext, route } from '../route.ts'
import { passwordFor, passwordOf, presentRole, requireRole, RoleChanged, RoleName, setBySql } from './roles.ts'

export const resetRolePassword = route(
  'POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password',
  {
    summary: 'Give a role a new password',
    tag: 'Role',
    params: RoleName,
    returns: RoleChanged,
    errors: ['NOT_FOUND', 'NOT_ALLOWED', 'LOCKED'],
  },
).handle(async ({ params }, context) => {
  const { project, branch } = await changeableBranch(context, params)
  const role = await requireRole(context, branch, params.role_name)
  if (!role.login)
    throw new AppError(
      'NOT_ALLOWED',
      `The role "${role.name}" cannot log in. Let it, by SQL: ALTER ROLE … LOGIN; then reset its password.`,
    )
  const { password, sealed, verifier } = await passwordFor(context, role.name)
  const changed = await setRolePassword(context.db, role, { password: sealed, verifier })
  return { role: presentRole(changed, password), operations: await queueChanges(context, project, branch) }
})

export const revealRolePassword = route(
  'GET /projects/:project_id/branches/:branch_id/roles/:role_name/reveal_password',
  {
    summary: 'The password of a role, where Neap gave it',
    tag: 'Role',
    scope: 'write',
    reveals: true,
    params: RoleName,
    returns: Type.Object({ password: Type.String() }),
    errors: ['NOT_FOUND', 'NOT_ALLOWED'],
  },
).handle(async ({ params }, context) => {
  const { branch, seen } = await readBranch(context, params)
  const role = await requireRole(context, branch, params.role_name)
  return { password: await knownPassword(context, branch, role, seen) }
})

/**
 * The password of a role, given out only where it is still the one that Postgres compares with, as far as can be known.
 * @param seen what the branch's compute has just said, where it did
 * Errors: NOT_ALLOWED, UNAVAILABLE.
 */
export async function knownPassword(
  context: RequestContext,
  branch: Branch,
  role: Role,
  seen: SeenConfig | undefined,
): Promise<string> {
  const password = passwordOf(context, role)
  const inPostgres = seen?.roles.find(({ name }) => name === role.name)
  if (inPostgres?.verifier !== role.verifier) await requireKnown(context, branch, role, seen !== undefined)
  return password
}

/** Sees that a password that Postgres did not confirm was not set by SQL in the meantime. Errors: UNAVAILABLE, NOT_ALLOWED. */
async function requireKnown({ db }: RequestContext, branch: Branch, { name }: Role, answered: boolean): Promise<void> {
  // One that Postgres has yet to be told is what it will be.
  if ((await listChanges(db, branch.id)).some(({ change }) => 'verifier' in change && change.name === name)) return
  if (answered) throw new AppError('NOT_ALLOWED', setBySql(name))
  const endpoint = await findBranchEndpoint(db, branch.id)
  if (endpoint?.current_state === 'active')
    throw new AppError(
      'UNAVAILABLE',
      `The compute does not say whether the password of "${name}" is still the one that was given out. Try again shortly.`,
    )
  if (!(await isNoted(db, branch.id)))
    throw new AppError(
      'NOT_ALLOWED',
      `The compute ended without saying whether the password of "${name}" is still the one that was given out. Start the endpoint and ask again, or use reset_password.`,
    )
}
