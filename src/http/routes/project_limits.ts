import { Type } from 'typebox'
import { LARGEST_CU, SMALLEST_CU } from '../../size.ts'
import { limitsOf } from '../../commands/account_limits.ts'
import { requireProject } from '../../commands/require.ts'
import { route } from '../route.ts'
import { ProjectParams } from '../path_params.ts'

const Limit = Type.Integer({ description: '-1: no limit' })

export const getProjectLimits = route('GET /projects/:project_id/limits', {
  summary: 'What a project may have at most',
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({
    limits: Type.Object({
      max_branches: Limit,
      max_roles_per_branch: Limit,
      max_databases_per_branch: Limit,
      max_read_only_endpoints: Limit,
      max_autoscaling_cu: Type.Number(),
      max_fixed_size_cu: Type.Number(),
    }),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const { config, caller } = context
  const largest = caller.account.plan === 'free' ? SMALLEST_CU : LARGEST_CU
  return {
    limits: {
      max_branches: limitsOf({ account: caller.account, config }).branches,
      max_roles_per_branch: config.rolesLimit,
      max_databases_per_branch: config.databasesLimit,
      max_read_only_endpoints: 0,
      max_autoscaling_cu: largest,
      max_fixed_size_cu: largest,
    },
  }
})
