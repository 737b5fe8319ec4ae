import { listDrills } from '../../catalog/backup_drill.ts'
import { findBranchBackup } from '../../catalog/store_backup.ts'
import { requireBranch, requireProject } from '../../commands/require.ts'
import { BranchBackup, branchBackupView } from '../../views/branch_backup.ts'
import { route } from '../route.ts'
import { BranchParams } from '../path_params.ts'

export const getBranchBackup = route('GET /projects/:project_id/branches/:branch_id/backup', {
  summary: 'What the repository of backups has of a branch',
  description: 'Neap only. The operator sets the repository up: `npx neap backup init`.',
  tag: 'Branch',
  params: BranchParams,
  returns: BranchBackup,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const project = await requireProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  return branchBackupView(await findBranchBackup(context.db, branch.id), await listDrills(context.db, branch.id))
})
