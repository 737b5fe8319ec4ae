import { type Static, Type } from 'typebox'
import { lookAtBranch } from '../../commands/look.ts'
import { lookAtParentOf, resetBranch, restoreBranch, type RestoredBranch } from '../../commands/restore_branch.ts'
import { Branch, branchViewWithUse } from '../../views/branch.ts'
import { Operation, operationView } from '../../views/operation.ts'
import { type RequestContext, route } from '../route.ts'
import { BranchParams } from '../path_params.ts'

const Restored = Type.Object({
  branch: Type.Interface([Branch], {
    parent_timestamp: Type.String({ format: 'date-time' }),
    last_reset_at: Type.String({ format: 'date-time' }),
  }),
  operations: Type.Array(Operation),
})

export const restoreProjectBranch = route('POST /projects/:project_id/branches/:branch_id/restore', {
  summary: 'Give a branch the data that another has now, or that one had at a moment; its connection string stays',
  tag: 'Branch',
  params: BranchParams,
  body: Type.Object({
    source_branch_id: Type.String({ minLength: 1 }),
    source_lsn: Type.Optional(Type.String()),
    source_timestamp: Type.Optional(Type.String()),
    preserve_under_name: Type.Optional(Type.String({ maxLength: 256 })),
  }),
  returns: Restored,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'BRANCH_ALREADY_EXISTS', 'BRANCHES_LIMIT_EXCEEDED'],
})
  .ask(({ params: { project_id }, body }, context) =>
    lookAtBranch(context, { project_id, branch_id: body.source_branch_id }),
  )
  .handle(async ({ params, body }, context, look) =>
    restored(context, await restoreBranch(context, params, body, look)),
  )

export const resetProjectBranch = route('POST /projects/:project_id/branches/:branch_id/reset_to_parent', {
  summary: 'Give a branch the data that its parent has now',
  tag: 'Branch',
  params: BranchParams,
  returns: Restored,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'CONFLICT', 'BRANCHES_LIMIT_EXCEEDED'],
})
  .ask(({ params }, context) => lookAtParentOf(context, params))
  .handle(async ({ params }, context, look) => restored(context, await resetBranch(context, params, look)))

async function restored(
  { db }: RequestContext,
  { branch, restoredTo, operations }: RestoredBranch,
): Promise<Static<typeof Restored>> {
  return {
    branch: { ...(await branchViewWithUse(db, branch)), parent_timestamp: restoredTo, last_reset_at: restoredTo },
    operations: operations.map((each) => operationView(each)),
  }
}
