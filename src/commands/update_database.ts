import { updateDatabase } from '../catalog/database.ts'
import { requireFreeDatabaseName, requireOwner } from './add_database.ts'
import { changeableBranch, queueConfigChanges } from './branch_config.ts'
import type { ChangedDatabase } from './changed.ts'
import type { CommandContext } from './command.ts'
import type { Look } from './look.ts'
import { type BranchId, requireDatabase } from './require.ts'

/**
 * Renames a database or changes its owner. A rename ends the sessions of the database, since Postgres does not rename a
 * database in use.
 * Errors: NOT_FOUND, LOCKED, NOT_ALLOWED, DATABASE_ALREADY_EXISTS.
 */
export async function changeDatabase(
  context: CommandContext,
  id: BranchId,
  database_name: string,
  asked: { readonly name?: string; readonly owner_name?: string },
  look: Look | undefined,
): Promise<ChangedDatabase> {
  const { project, branch } = await changeableBranch(context, id, look)
  const database = await requireDatabase(context, branch, database_name)
  const { name = database.name, owner_name = database.owner_name } = asked
  if (name !== database.name) await requireFreeDatabaseName(context, branch.id, name)
  if (owner_name !== database.owner_name) await requireOwner(context, branch.id, owner_name)
  if (name === database.name && owner_name === database.owner_name) return { database, operations: [] }
  const changed = await updateDatabase(context.db, database, name, owner_name)
  return { database: changed, operations: await queueConfigChanges(context, project, branch) }
}
