import { type Static, Type } from 'typebox'
import type { Branch } from '../../catalog/branch.ts'
import { listDatabases } from '../../catalog/database.ts'
import {
  deleteRole as deleteRoleRow,
  findRole,
  insertRole,
  listRoles,
  type Role as RoleRow,
} from '../../catalog/role.ts'
import { AppError } from '../../errors.ts'
import { scramVerifier } from '../../postgres/scram_verifier.ts'
import { passwordContext } from '../../secrets/contexts.ts'
import { newPassword } from '../../secrets/generated.ts'
import { changeableBranch, queueChanges, readBranch } from '../branch_config.ts'
import { type RequestContext, route } from '../route.ts'
import { Operation } from './operations.ts'

export const Role = Type.Object(
  {
    branch_id: Type.String(),
    name: Type.String(),
    password: Type.Optional(Type.String()),
    protected: Type.Boolean(),
    authentication_method: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Role' },
)

/** A role as clients see it; with its password only where it was just made or reset. */
export function presentRole(row: RoleRow, password?: string): Static<typeof Role> {
  return {
    branch_id: row.branch_id,
    name: row.name,
    ...(password && { password }),
    protected: false,
    authentication_method: row.login ? 'password' : 'no_login',
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

/**
 * Makes a role with a new password, as intent: Postgres has it after the next apply_config or start.
 * Errors: NOT_ALLOWED, ROLE_ALREADY_EXISTS, ROLES_LIMIT_EXCEEDED.
 */
export async function addRole(
  context: RequestContext,
  branchId: string,
  name: string,
): Promise<{ role: RoleRow; password: string }> {
  await requireFreeName(context, branchId, name)
  const { password, sealed, verifier } = await passwordFor(context, name)
  const account_id = context.caller.account.id
  return {
    role: await insertRole(context.db, { branch_id: branchId, account_id, name, password: sealed, verifier }),
    password,
  }
}

/** The same for a role that cannot log in. */
async function addRoleWithoutLogin(context: RequestContext, branchId: string, name: string): Promise<RoleRow> {
  await requireFreeName(context, branchId, name)
  const account_id = context.caller.account.id
  return insertRole(context.db, { branch_id: branchId, account_id, name, password: null, verifier: null })
}

async function requireFreeName({ db, config }: RequestContext, branchId: string, name: string): Promise<void> {
  requireName('role', name)
  const roles = await listRoles(db, branchId)
  if (roles.some((role) => role.name === name))
    throw new AppError('ROLE_ALREADY_EXISTS', `role already exists; role_name:"${name}"`)
  if (roles.length >= config.rolesLimit)
    throw new AppError('ROLES_LIMIT_EXCEEDED', `A branch has ${config.rolesLimit} roles at most. Delete one first.`)
}

/** A new password for a role: itself, sealed for the catalog, and what Postgres compares with. */
export async function passwordFor({ secrets }: RequestContext, name: string) {
  const password = newPassword()
  return {
    password,
    sealed: secrets.encrypt('password', password, passwordContext(name)),
    verifier: await scramVerifier(password),
  }
}

/** The password of a role, as it was given out. Errors: NOT_ALLOWED where there is none, or where it was set by SQL. */
export function passwordOf({ secrets }: RequestContext, role: RoleRow): string {
  if (role.password) return secrets.decrypt('password', role.password, passwordContext(role.name))
  if (!role.login) throw new AppError('NOT_ALLOWED', `The role "${role.name}" cannot log in, so it has no password.`)
  throw new AppError(
    'NOT_ALLOWED',
    role.verifier
      ? setBySql(role.name)
      : `The role "${role.name}" was made by SQL without a password. Set one with reset_password.`,
  )
}

export const setBySql = (name: string) =>
  `The password of the role "${name}" was set by SQL, so it is not known here. Use it, or set a new one with reset_password.`

/** Postgres cuts names at 63 bytes and keeps `pg_` for itself; `neap_` is ours. Errors: NOT_ALLOWED. */
export function requireName(kind: 'role' | 'database', name: string): void {
  const bytes = Buffer.byteLength(name)
  if (bytes === 0 || bytes > 63 || name.includes('\0') || !name.isWellFormed())
    throw new AppError('NOT_ALLOWED', `A ${kind} name has 1 to 63 bytes of UTF-8, none of them zero.`)
  const reserved = kind === 'role' ? /^(pg_|neap_)|^(public|none|postgres)$/ : /^(neap|postgres|template0|template1)$/
  if (reserved.test(name)) throw new AppError('NOT_ALLOWED', `The ${kind} name "${name}" is reserved; choose another.`)
}

/** Errors: NOT_FOUND. */
export async function requireRole({ db }: RequestContext, branch: Branch, name: string): Promise<RoleRow> {
  const role = await findRole(db, branch.id, name)
  if (!role) throw new AppError('NOT_FOUND', `role not found; role_name:"${name}"`)
  return role
}

const BranchId = Type.Object({ project_id: Type.String(), branch_id: Type.String() })
export const RoleName = Type.Object({ project_id: Type.String(), branch_id: Type.String(), role_name: Type.String() })
export const RoleChanged = Type.Object({ role: Role, operations: Type.Array(Operation) })

export const createRole = route('POST /projects/:project_id/branches/:branch_id/roles', {
  summary: 'Create a role',
  tag: 'Role',
  params: BranchId,
  body: Type.Object({ role: Type.Object({ name: Type.String(), no_login: Type.Optional(Type.Boolean()) }) }),
  status: 201,
  returns: RoleChanged,
  errors: ['NOT_FOUND', 'ROLE_ALREADY_EXISTS', 'NOT_ALLOWED', 'ROLES_LIMIT_EXCEEDED', 'LOCKED'],
}).handle(async ({ params, body }, context) => {
  const { project, branch } = await changeableBranch(context, params)
  const { name, no_login } = body.role
  const role = no_login
    ? presentRole(await addRoleWithoutLogin(context, branch.id, name))
    : await addRole(context, branch.id, name).then((made) => presentRole(made.role, made.password))
  return { role, operations: await queueChanges(context, project, branch) }
})

export const listBranchRoles = route('GET /projects/:project_id/branches/:branch_id/roles', {
  summary: 'List the roles of a branch, those that were made by SQL too',
  tag: 'Role',
  params: BranchId,
  returns: Type.Object({ roles: Type.Array(Role) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { branch } = await readBranch(context, params)
  const roles = await listRoles(context.db, branch.id)
  return { roles: roles.map((role) => presentRole(role)) }
})

export const getRole = route('GET /projects/:project_id/branches/:branch_id/roles/:role_name', {
  summary: 'Get a role',
  tag: 'Role',
  params: RoleName,
  returns: Type.Object({ role: Role }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { branch } = await readBranch(context, params)
  return { role: presentRole(await requireRole(context, branch, params.role_name)) }
})

/**
 * What the role owns in Postgres goes to the owner of the database it lies in, as the manual advises (REASSIGN OWNED); what it was
 * granted or has granted is taken back. Databases are not given away: it must own none.
 */
export const deleteRole = route('DELETE /projects/:project_id/branches/:branch_id/roles/:role_name', {
  summary: "Delete a role; what it owns goes to its database's owner",
  tag: 'Role',
  params: RoleName,
  returns: RoleChanged,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'LOCKED'],
}).handle(async ({ params }, context) => {
  const { project, branch } = await changeableBranch(context, params)
  const role = await requireRole(context, branch, params.role_name)
  const owned = (await listDatabases(context.db, branch.id)).filter(({ owner_name }) => owner_name === role.name)
  if (owned.length > 0) {
    const names = owned.map(({ name }) => `"${name}"`).join(', ')
    throw new AppError(
      'NOT_ALLOWED',
      `The role "${role.name}" owns the database ${names}. Give it another owner (PATCH …/databases/{name} with owner_name), or delete it, then delete the role.`,
    )
  }
  await deleteRoleRow(context.db, role)
  return { role: presentRole(role), operations: await queueChanges(context, project, branch) }
})
