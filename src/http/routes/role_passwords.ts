import { Type } from 'typebox'
import { lookAtBranch, readBranch } from '../../commands/look.ts'
import { requireRole } from '../../commands/require.ts'
import { knownPassword, resetRolePassword } from '../../commands/role_password.ts'
import { route } from '../route.ts'
import { RoleChanged, roleChanged, RoleName } from './roles.ts'

export const resetBranchRolePassword = route(
  'POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password',
  {
    summary: 'Give a role a new password',
    tag: 'Role',
    params: RoleName,
    returns: RoleChanged,
    errors: ['NOT_FOUND', 'NOT_ALLOWED', 'LOCKED'],
  },
)
  .ask(({ params }, context) => lookAtBranch(context, params))
  .handle(async ({ params }, context, look) =>
    roleChanged(await resetRolePassword(context, params, params.role_name, look)),
  )

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
