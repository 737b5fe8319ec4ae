import { Type } from 'typebox'
import { findBranchEndpoint } from '../../catalog/endpoint.ts'
import { requireBranch, requireProject } from '../../commands/require.ts'
import { Endpoint, endpointView } from '../../views/endpoint.ts'
import { route } from '../route.ts'
import { BranchParams } from '../path_params.ts'

export const listBranchEndpoints = route('GET /projects/:project_id/branches/:branch_id/endpoints', {
  summary: 'List the compute endpoints of a branch: one or none',
  tag: 'Endpoint',
  params: BranchParams,
  returns: Type.Object({ endpoints: Type.Array(Endpoint) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  const endpoint = await findBranchEndpoint(context.db, branch.id)
  return { endpoints: endpoint ? [endpointView(endpoint, context.config, { gone: true })] : [] }
})
