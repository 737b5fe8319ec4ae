import { Type } from 'typebox'
import { deleteBranch } from '../../commands/delete_branch.ts'
import { recoverBranch } from '../../commands/recover_branch.ts'
import { Branch, branchViewWithUse } from '../../views/branch.ts'
import { Endpoint, endpointView } from '../../views/endpoint.ts'
import { Operation, operationView } from '../../views/operation.ts'
import { route } from '../route.ts'
import { BranchParams } from '../path_params.ts'

export const deleteProjectBranch = route('DELETE /projects/:project_id/branches/:branch_id', {
  summary: 'Delete a branch and its endpoint; they can be recovered while NEAP_BRANCH_RECOVER_HOURS leaves time for it',
  tag: 'Branch',
  params: BranchParams,
  query: Type.Object({
    hard_delete: Type.Optional(
      Type.Boolean({
        description: 'Removes its data at once, for good; also those of a branch that is deleted already',
      }),
    ),
  }),
  returns: Type.Object({ branch: Branch, operations: Type.Array(Operation) }),
  freesDisk: true,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, query }, context) => {
  const { branch, operations } = await deleteBranch(context, params, query.hard_delete)
  return {
    branch: await branchViewWithUse(context.db, branch),
    operations: operations.map((each) => operationView(each)),
  }
})

export const recoverDeletedBranch = route('POST /projects/:project_id/branches/:branch_id/recover', {
  summary: 'Take the deletion of a branch back',
  tag: 'Branch',
  params: BranchParams,
  returns: Type.Object({ branch: Branch, endpoints: Type.Array(Endpoint) }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'BRANCH_ALREADY_EXISTS', 'BRANCHES_LIMIT_EXCEEDED'],
}).handle(async ({ params }, context) => {
  const { branch, endpoint } = await recoverBranch(context, params)
  return {
    branch: await branchViewWithUse(context.db, branch),
    endpoints: endpoint ? [endpointView(endpoint, context.config)] : [],
  }
})
