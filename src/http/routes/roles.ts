import { type Static, Type } from 'typebox'
import { raiseConfigVersion } from '../../catalog/branch.ts'
import { findRole, insertRole, listRoles, type Role as RoleRow } from '../../catalog/role.ts'
import { AppError } from '../../errors.ts'
import { applyConfigOperation } from '../../operations/apply_config.ts'
import { requestOperation } from '../../operations/request.ts'
import { newPassword, scramVerifier } from '../../secrets.ts'
import { lockedProject, requireBranch, requireProject } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { Operation, presentOperation } from './operations.ts'

export const Role = Type.Object(
  {
    branch_id: Type.String(),
    name: Type.String(),
    password: Type.Optional(Type.String()),
    protected: Type.Boolean(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Role' },
)

/** A role as clients see it; with its password only where it was just made. */
export function presentRole(row: RoleRow, password?: string): Static<typeof Role> {
  return {
    branch_id: row.branch_id,
    name: row.name,
    ...(password && { password }),
    protected: false,
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

/** Makes a role with a new password, as intent: Postgres has it after the next apply_config or start. Errors: NOT_ALLOWED, ROLE_ALREADY_EXISTS. */
export async function addRole(
  { db, secrets, caller }: RequestContext,
  branchId: string,
  name: string,
): Promise<{ role: RoleRow; password: string }> {
  requireName('role', name)
  if (await findRole(db, branchId, name))
    throw new AppError('ROLE_ALREADY_EXISTS', `role already exists; role_name:"${name}"`)
  const password = newPassword()
  const role = await insertRole(db, {
    branch_id: branchId,
    account_id: caller.account.id,
    name,
    password: secrets.encrypt(password, passwordContext(name)),
    verifier: await scramVerifier(password),
  })
  return { role, password }
}

/** The password of a role, as it was given out. */
export function passwordOf({ secrets }: RequestContext, role: RoleRow): string {
  if (!role.password) throw new AppError('NOT_ALLOWED', `The role ${role.name} cannot log in, so it has no password.`)
  return secrets.decrypt(role.password, passwordContext(role.name))
}

/** What binds the encrypted password to its role, also in the branches that inherit it. */
const passwordContext = (name: string) => `role ${name}`

/** Postgres cuts names at 63 bytes and keeps `pg_` for itself; `neap_` is ours. Errors: NOT_ALLOWED. */
export function requireName(kind: 'role' | 'database', name: string): void {
  const bytes = Buffer.byteLength(name)
  if (bytes === 0 || bytes > 63 || name.includes('\0'))
    throw new AppError('NOT_ALLOWED', `A ${kind} name has 1 to 63 bytes.`)
  const reserved = kind === 'role' ? /^(pg_|neap_)|^(public|none|postgres)$/ : /^(neap|postgres|template0|template1)$/
  if (reserved.test(name)) throw new AppError('NOT_ALLOWED', `The ${kind} name "${name}" is reserved; choose another.`)
}

const BranchId = Type.Object({ project_id: Type.String(), branch_id: Type.String() })

export const createRole = route('POST /projects/:project_id/branches/:branch_id/roles', {
  summary: 'Create a role',
  tag: 'Role',
  params: BranchId,
  body: Type.Object({ role: Type.Object({ name: Type.String() }) }),
  status: 201,
  returns: Type.Object({ role: Role, operations: Type.Array(Operation) }),
  errors: ['NOT_FOUND', 'ROLE_ALREADY_EXISTS', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const project = await lockedProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  const { role, password } = await addRole(context, branch.id, body.role.name)
  await raiseConfigVersion(context.db, branch.id)
  const operation = await requestOperation(
    context.db,
    applyConfigOperation,
    { account_id: project.account_id, project_id: project.id, branch_id: branch.id },
    {},
  )
  return { role: presentRole(role, password), operations: [presentOperation(operation)] }
})

export const listBranchRoles = route('GET /projects/:project_id/branches/:branch_id/roles', {
  summary: 'List the roles of a branch',
  tag: 'Role',
  params: BranchId,
  returns: Type.Object({ roles: Type.Array(Role) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  const roles = await listRoles(context.db, branch.id)
  return { roles: roles.map((role) => presentRole(role)) }
})
