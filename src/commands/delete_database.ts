import { deleteDatabase as deleteDatabaseRow } from '../catalog/database.ts'
import { changeableBranch, queueConfigChanges } from './branch_config.ts'
import type { ChangedDatabase } from './changed.ts'
import type { CommandContext } from './command.ts'
import type { Look } from './look.ts'
import { type BranchId, requireDatabase } from './require.ts'

/** Deletes a database with its data and ends its sessions. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED. */
export async function deleteDatabase(
  context: CommandContext,
  id: BranchId,
  name: string,
  look: Look | undefined,
): Promise<ChangedDatabase> {
  const { project, branch } = await changeableBranch(context, id, look)
  const database = await requireDatabase(context, branch, name)
  await deleteDatabaseRow(context.db, database)
  return { database, operations: await queueConfigChanges(context, project, branch) }
}
