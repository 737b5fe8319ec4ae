import { type Static, Type } from 'typebox'
import { listRoles } from '../../catalog/role.ts'
import { createRole } from '../../commands/add_role.ts'
import type { ChangedRole } from '../../commands/changed.ts'
import { deleteRole } from '../../commands/delete_role.ts'
import { lookAtBranch, readBranch } from '../../commands/look.ts'
import { requireRole } from '../../commands/require.ts'
import { Operation, operationView } from '../../views/operation.ts'
import { Role, roleView } from '../../views/role.ts'
import { route } from '../route.ts'
import { BranchParams } from '../path_params.ts'

export const RoleName = Type.Object({ project_id: Type.String(), branch_id: Type.String(), role_name: Type.String() })
export const RoleChanged = Type.Object({ role: Role, operations: Type.Array(Operation) })

/** The response to a change of a role, with the password if one was just made. */
export const roleChanged = ({ role, password, operations }: ChangedRole): Static<typeof RoleChanged> => ({
  role: roleView(role, password),
  operations: operations.map((each) => operationView(each)),
})

export const createBranchRole = route('POST /projects/:project_id/branches/:branch_id/roles', {
  summary: 'Create a role',
  tag: 'Role',
  params: BranchParams,
  body: Type.Object({ role: Type.Object({ name: Type.String(), no_login: Type.Optional(Type.Boolean()) }) }),
  status: 201,
  returns: RoleChanged,
  errors: ['NOT_FOUND', 'ROLE_ALREADY_EXISTS', 'NOT_ALLOWED', 'ROLES_LIMIT_EXCEEDED', 'LOCKED'],
})
  .ask(({ params }, context) => lookAtBranch(context, params))
  .handle(async ({ params, body }, context, look) => roleChanged(await createRole(context, params, body.role, look)))

export const listBranchRoles = route('GET /projects/:project_id/branches/:branch_id/roles', {
  summary: 'List the roles of a branch, those that were made by SQL too',
  tag: 'Role',
  params: BranchParams,
  returns: Type.Object({ roles: Type.Array(Role) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { branch } = await readBranch(context, params)
  const roles = await listRoles(context.db, branch.id)
  return { roles: roles.map((role) => roleView(role)) }
})

export const getRole = route('GET /projects/:project_id/branches/:branch_id/roles/:role_name', {
  summary: 'Get a role',
  tag: 'Role',
  params: RoleName,
  returns: Type.Object({ role: Role }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { branch } = await readBranch(context, params)
  return { role: roleView(await requireRole(context, branch, params.role_name)) }
})

/**
 * The role's objects go to the owner of their database, as the Postgres manual advises (REASSIGN OWNED); privileges
 * that it was granted or has granted are revoked. Databases are not reassigned: the role must not own one.
 */
export const deleteBranchRole = route('DELETE /projects/:project_id/branches/:branch_id/roles/:role_name', {
  summary: "Delete a role; what it owns goes to its database's owner",
  tag: 'Role',
  params: RoleName,
  returns: RoleChanged,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'LOCKED'],
})
  .ask(({ params }, context) => lookAtBranch(context, params))
  .handle(async ({ params }, context, look) => roleChanged(await deleteRole(context, params, params.role_name, look)))
