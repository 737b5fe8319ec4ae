import { type Database, findDatabase, insertDatabase, listDatabases } from '../catalog/database.ts'
import { findRole } from '../catalog/role.ts'
import { AppError } from '../errors.ts'
import { changeableBranch, queueConfigChanges } from './branch_config.ts'
import type { ChangedDatabase } from './changed.ts'
import type { CommandContext } from './command.ts'
import type { Look } from './look.ts'
import { type BranchId, requireName } from './require.ts'

/**
 * Creates a database of a branch.
 * Errors: NOT_FOUND (branch, owner), LOCKED, NOT_ALLOWED, DATABASE_ALREADY_EXISTS, DATABASES_LIMIT_EXCEEDED.
 */
export async function createDatabase(
  context: CommandContext,
  id: BranchId,
  { name, owner_name }: { readonly name: string; readonly owner_name: string },
  look: Look | undefined,
): Promise<ChangedDatabase> {
  const { project, branch } = await changeableBranch(context, id, look)
  const database = await addDatabase(context, branch.id, name, owner_name)
  return { database, operations: await queueConfigChanges(context, project, branch) }
}

/**
 * Inserts a database; the next apply_config or start creates it in Postgres. Errors: NOT_ALLOWED, NOT_FOUND (owner),
 * DATABASE_ALREADY_EXISTS, DATABASES_LIMIT_EXCEEDED.
 */
export async function addDatabase(
  context: CommandContext,
  branchId: string,
  name: string,
  owner: string,
): Promise<Database> {
  const { db, account, config } = context
  await requireFreeDatabaseName(context, branchId, name)
  await requireOwner(context, branchId, owner)
  if ((await listDatabases(db, branchId)).length >= config.databasesLimit)
    throw new AppError(
      'DATABASES_LIMIT_EXCEEDED',
      `A branch has ${config.databasesLimit} databases at most. Delete one first.`,
    )
  return insertDatabase(db, { branch_id: branchId, account_id: account.id, name, owner_name: owner })
}

export async function requireFreeDatabaseName({ db }: CommandContext, branchId: string, name: string): Promise<void> {
  requireName('database', name)
  if (await findDatabase(db, branchId, name))
    throw new AppError('DATABASE_ALREADY_EXISTS', `database already exists; database_name:"${name}"`)
}

export async function requireOwner({ db }: CommandContext, branchId: string, owner: string): Promise<void> {
  if (!(await findRole(db, branchId, owner)))
    throw new AppError('NOT_FOUND', `database owner not found; role_name:"${owner}"`)
}
