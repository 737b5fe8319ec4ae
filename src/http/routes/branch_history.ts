import { Type } from 'typebox'
import { historyBeginning, retentionOf } from '../../commands/moment.ts'
import { requireBranch, requireProject } from '../../commands/require.ts'
import { route } from '../route.ts'
import { BranchParams } from '../path_params.ts'

export const getBranchHistory = route('GET /projects/:project_id/branches/:branch_id/history', {
  summary: 'The moments of a branch that are within reach',
  description: 'Neap only. A branch is made of any of them, and restored to it.',
  tag: 'Branch',
  params: BranchParams,
  returns: Type.Object({
    since: Type.Optional(
      Type.String({ format: 'date-time', description: 'Absent before there is a history, which begins with a start' }),
    ),
    history_retention_seconds: Type.Integer(),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const project = await requireProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  const since = await historyBeginning(context.db, project, branch)
  return {
    ...(since && { since: since.toISOString() }),
    history_retention_seconds: retentionOf(project, branch),
  }
})
