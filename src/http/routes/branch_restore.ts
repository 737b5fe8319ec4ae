import { type Static, Type } from 'typebox'
import { type Branch as BranchRow, hasChildren } from '../../catalog/branch.ts'
import { countCopies } from '../../catalog/branch_quota.ts'
import { AppError } from '../../errors.ts'
import { queueRestore } from '../../operations/restore_branch.ts'
import { changeableBranch } from '../branch_config.ts'
import { requireBranch, requireProject } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { Branch, presentWithTransfer, requireFreeName, requireRoomForBranch } from './branches.ts'
import { Operation, presentOperation } from './operations.ts'

const BranchId = Type.Object({ project_id: Type.String(), branch_id: Type.String() })
const Restored = Type.Object({
  branch: Type.Interface([Branch], {
    parent_timestamp: Type.String({ format: 'date-time' }),
    last_reset_at: Type.String({ format: 'date-time' }),
  }),
  operations: Type.Array(Operation),
})

export const restoreBranch = route('POST /projects/:project_id/branches/:branch_id/restore', {
  summary: 'Give a branch the data that another branch has now; its endpoint and connection string stay',
  tag: 'Branch',
  params: BranchId,
  body: Type.Object({
    source_branch_id: Type.String({ minLength: 1 }),
    source_lsn: Type.Optional(Type.String()),
    source_timestamp: Type.Optional(Type.String()),
    preserve_under_name: Type.Optional(Type.String({ maxLength: 256 })),
  }),
  returns: Restored,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'BRANCH_ALREADY_EXISTS', 'BRANCHES_LIMIT_EXCEEDED'],
}).handle(async ({ params, body }, context) => {
  requireNow({ source_lsn: body.source_lsn, source_timestamp: body.source_timestamp })
  const source = await lockedSource(context, params.project_id, body.source_branch_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  return restore(context, branch, source, body.preserve_under_name)
})

export const resetBranch = route('POST /projects/:project_id/branches/:branch_id/reset_to_parent', {
  summary: 'Give a branch the data that its parent has now',
  tag: 'Branch',
  params: BranchId,
  returns: Restored,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'CONFLICT', 'BRANCHES_LIMIT_EXCEEDED'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const { parent_id } = await requireBranch(context, params.project_id, params.branch_id)
  if (parent_id === null)
    throw new AppError(
      'NOT_ALLOWED',
      `The branch ${params.branch_id} is a root branch: it has no parent to reset it to.`,
    )
  const parent = await lockedSource(context, params.project_id, parent_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  if (branch.parent_id !== parent_id)
    throw new AppError('CONFLICT', 'The branch was restored from another one meanwhile. Try again.')
  return restore(context, branch, parent, undefined)
})

/** The branch to restore from, its project locked; its roles and databases are as Postgres has them now. */
async function lockedSource(context: RequestContext, project_id: string, branch_id: string): Promise<BranchRow> {
  return (await changeableBranch(context, { project_id, branch_id })).branch
}

/** Refuses what needs a branch's past: it has none yet. Errors: NOT_ALLOWED. */
export function requireNow(moments: Record<string, string | undefined>): void {
  const [asked] = Object.entries(moments).find(([, value]) => value) ?? []
  if (asked !== undefined)
    throw new AppError('NOT_ALLOWED', `Branches have no history yet: leave ${asked} out for what the branch has now.`)
}

async function restore(
  context: RequestContext,
  branch: BranchRow,
  source: BranchRow,
  keptName: string | undefined,
): Promise<Static<typeof Restored>> {
  const { db } = context
  requireData(branch)
  requireData(source)
  const itself = branch.id === source.id
  if (keptName === undefined) {
    if (itself) throw new AppError('NOT_ALLOWED', 'A branch is restored from itself: preserve_under_name is required')
    if (await hasChildren(db, branch.id))
      throw new AppError('NOT_ALLOWED', 'Branch has children, preserve_under_name is required')
    if (branch.protected)
      throw new AppError('NOT_ALLOWED', 'The branch is protected: give preserve_under_name to keep its data.')
    await requireRoomForCopy(context, branch.project_id)
  } else {
    await requireFreeName(context, branch.project_id, keptName)
    await requireRoomForBranch(context, branch.project_id)
  }
  const { copy, operations } = await queueRestore(db, { branch, source, keptName })
  const now = copy.created_at
  return {
    // As it will be: the row changes together with the data.
    branch: {
      ...(await presentWithTransfer(db, { ...branch, parent_id: itself ? copy.id : source.id, updated_at: now })),
      parent_timestamp: now,
      last_reset_at: now,
    },
    operations: operations.map((each) => presentOperation(each)),
  }
}

/** What takes a branch's place takes none of the quota, but not any number is made at once. Errors: BRANCHES_LIMIT_EXCEEDED. */
async function requireRoomForCopy({ db, config }: RequestContext, projectId: string): Promise<void> {
  if ((await countCopies(db, projectId)) >= config.branchesLimit)
    throw new AppError(
      'BRANCHES_LIMIT_EXCEEDED',
      `The project has ${config.branchesLimit} restores under way, as many as it may. Try again when one has ended.`,
    )
}

function requireData(branch: BranchRow): void {
  if (branch.current_state === 'init' && branch.pending_state === null)
    throw new AppError('NOT_ALLOWED', `The branch ${branch.id} could not be made and holds no data.`)
}
