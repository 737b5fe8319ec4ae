import { Type } from 'typebox'
import { readBranchSpace, readProjectSpace } from '../../catalog/space.ts'
import { requireBranch, requireProject } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { BranchDiskUsage, branchDiskUsageView, ProjectDiskUsage, projectDiskUsageView } from '../../views/disk_usage.ts'
import { route } from '../route.ts'
import { BranchParams, ProjectParams } from '../path_params.ts'

const MEASURED = 'Neap only. A pass over all stores of a host in the background measures it from time to time.'

export const getBranchDiskUsage = route('GET /projects/:project_id/branches/:branch_id/disk_usage', {
  summary: 'The space of a branch: its size, what it adds, and what its deletion frees',
  description: MEASURED,
  tag: 'Branch',
  params: BranchParams,
  returns: Type.Object({ disk_usage: BranchDiskUsage }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const project = await requireProject(context, params.project_id)
  const { id } = await requireBranch(context, project.id, params.branch_id)
  const space = await readBranchSpace(context.db, id)
  if (!space) throw new AppError('NOT_FOUND', `branch ${id} not found`)
  return { disk_usage: branchDiskUsageView(id, space, context.config.branchRecoverHours) }
})

export const getProjectDiskUsage = route('GET /projects/:project_id/disk_usage', {
  summary: 'The space of a project: the size of its branches and snapshots, and what its deletion frees',
  description: `${MEASURED} Blocks that its branches share count once.`,
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({ disk_usage: ProjectDiskUsage }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { id } = await requireProject(context, params.project_id)
  return { disk_usage: projectDiskUsageView(id, await readProjectSpace(context.db, id), context.config.recoverHours) }
})
