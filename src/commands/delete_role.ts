import { listDatabases } from '../catalog/database.ts'
import { deleteRole as deleteRoleRow } from '../catalog/role.ts'
import { AppError } from '../errors.ts'
import { changeableBranch, queueConfigChanges } from './branch_config.ts'
import type { ChangedRole } from './changed.ts'
import type { CommandContext } from './command.ts'
import type { Look } from './look.ts'
import { type BranchId, requireRole } from './require.ts'

/**
 * Deletes a role. Its objects in each database go to the owner of that database, as the manual advises (REASSIGN
 * OWNED); grants to and by it are revoked. It must own no database. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED.
 */
export async function deleteRole(
  context: CommandContext,
  id: BranchId,
  name: string,
  look: Look | undefined,
): Promise<ChangedRole> {
  const { project, branch } = await changeableBranch(context, id, look)
  const role = await requireRole(context, branch, name)
  const owned = (await listDatabases(context.db, branch.id)).filter(({ owner_name }) => owner_name === role.name)
  if (owned.length > 0) {
    const names = owned.map((database) => `"${database.name}"`).join(', ')
    throw new AppError(
      'NOT_ALLOWED',
      `The role "${role.name}" owns the database ${names}. ` +
        'Give it another owner (PATCH …/databases/{name} with owner_name), or delete it, then delete the role.',
    )
  }
  await deleteRoleRow(context.db, role)
  return { role, operations: await queueConfigChanges(context, project, branch) }
}
