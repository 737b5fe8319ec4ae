import { insertRole, listRoles, type Role } from '../catalog/role.ts'
import { AppError } from '../errors.ts'
import { changeableBranch, queueConfigChanges } from './branch_config.ts'
import type { ChangedRole } from './changed.ts'
import type { CommandContext } from './command.ts'
import type { Look } from './look.ts'
import { type BranchId, requireName } from './require.ts'
import { passwordFor } from './role_password.ts'

/** Creates a role of a branch. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED, ROLE_ALREADY_EXISTS, ROLES_LIMIT_EXCEEDED. */
export async function createRole(
  context: CommandContext,
  id: BranchId,
  { name, no_login }: { readonly name: string; readonly no_login?: boolean },
  look: Look | undefined,
): Promise<ChangedRole> {
  const { project, branch } = await changeableBranch(context, id, look)
  const added = no_login
    ? { role: await addRoleWithoutLogin(context, branch.id, name) }
    : await addRole(context, branch.id, name)
  return { ...added, operations: await queueConfigChanges(context, project, branch) }
}

/**
 * Inserts a role with a new password; the next apply_config or start creates it in Postgres.
 * Errors: NOT_ALLOWED, ROLE_ALREADY_EXISTS, ROLES_LIMIT_EXCEEDED.
 */
export async function addRole(
  context: CommandContext,
  branchId: string,
  name: string,
): Promise<{ role: Role; password: string }> {
  await requireFreeRoleName(context, branchId, name)
  const { password, sealed, verifier } = await passwordFor(context, name)
  const account_id = context.account.id
  return {
    role: await insertRole(context.db, { branch_id: branchId, account_id, name, password: sealed, verifier }),
    password,
  }
}

/** Like `addRole`, for a role that cannot log in. */
async function addRoleWithoutLogin(context: CommandContext, branchId: string, name: string): Promise<Role> {
  await requireFreeRoleName(context, branchId, name)
  const account_id = context.account.id
  return insertRole(context.db, { branch_id: branchId, account_id, name, password: null, verifier: null })
}

async function requireFreeRoleName({ db, config }: CommandContext, branchId: string, name: string): Promise<void> {
  requireName('role', name)
  const roles = await listRoles(db, branchId)
  if (roles.some((role) => role.name === name))
    throw new AppError('ROLE_ALREADY_EXISTS', `role already exists; role_name:"${name}"`)
  if (roles.length >= config.rolesLimit)
    throw new AppError('ROLES_LIMIT_EXCEEDED', `A branch has ${config.rolesLimit} roles at most. Delete one first.`)
}
