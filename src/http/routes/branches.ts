import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import {
  type Branch as BranchRow,
  countBranches,
  findBranchNamed,
  hasChildren,
  listBranches,
  setDefaultBranch,
  updateBranch,
} from '../../catalog/branch.ts'
import { countAgainstQuota } from '../../catalog/branch_quota.ts'
import type { Db } from '../../catalog/catalog.ts'
import { branchTransfers } from '../../catalog/traffic.ts'
import { AppError } from '../../errors.ts'
import { removeBranch } from '../../operations/removal.ts'
import { lockedProject, requireBranch, requireFuture, requireProject } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { Operation, presentOperation } from './operations.ts'

const State = Type.Union([Type.Literal('init'), Type.Literal('ready')])

export const Branch = Type.Object(
  {
    id: Type.String(),
    project_id: Type.String(),
    parent_id: Type.Optional(Type.String()),
    name: Type.String(),
    current_state: State,
    pending_state: Type.Optional(State),
    state_changed_at: Type.String({ format: 'date-time' }),
    creation_source: Type.String(),
    init_source: Type.Optional(Type.String()),
    primary: Type.Boolean(),
    default: Type.Boolean(),
    protected: Type.Boolean(),
    expires_at: Type.Optional(Type.String({ format: 'date-time' })),
    ttl_interval_seconds: Type.Optional(Type.Integer()),
    last_reset_at: Type.Optional(Type.String({ format: 'date-time' })),
    cpu_used_sec: Type.Integer(),
    compute_time_seconds: Type.Integer(),
    active_time_seconds: Type.Integer(),
    written_data_bytes: Type.Integer(),
    data_transfer_bytes: Type.Integer(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Branch' },
)

/**
 * A branch as clients see it. Other consumption than its transfer is not measured yet and stands at zero, as the clients' types require
 * the fields.
 * @param transferred bytes that went to clients this month
 */
export function presentBranch(row: BranchRow, transferred = 0): Static<typeof Branch> {
  return {
    id: row.id,
    project_id: row.project_id,
    ...(row.parent_id && { parent_id: row.parent_id }),
    name: row.name,
    current_state: row.current_state,
    ...(row.pending_state && { pending_state: row.pending_state }),
    state_changed_at: row.state_changed_at,
    creation_source: row.creation_source,
    ...(row.parent_id && { init_source: 'parent-data' }),
    primary: row.is_default,
    default: row.is_default,
    protected: row.protected,
    ...(row.expires_at && { expires_at: row.expires_at, ttl_interval_seconds: secondsUntil(row, row.expires_at) }),
    ...(row.last_reset_at && { last_reset_at: row.last_reset_at }),
    cpu_used_sec: 0,
    compute_time_seconds: 0,
    active_time_seconds: 0,
    written_data_bytes: 0,
    data_transfer_bytes: transferred,
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

/** The same, with what it transferred looked up. */
export async function presentWithTransfer(db: Db, row: BranchRow): Promise<Static<typeof Branch>> {
  return presentBranch(row, (await branchTransfers(db, row.project_id, row.id)).get(row.id))
}

function secondsUntil({ updated_at }: BranchRow, moment: string): number {
  return Math.max(0, Math.round((Date.parse(moment) - Date.parse(updated_at)) / 1000))
}

const ProjectId = Type.Object({ project_id: Type.String() })
const BranchId = Type.Object({ project_id: Type.String(), branch_id: Type.String() })

const Annotation = Type.Object({
  object: Type.Object({ type: Type.String(), id: Type.String() }),
  value: Type.Record(Type.String(), Type.String()),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
})

function presentAnnotation({ id, annotation, created_at, updated_at }: BranchRow): Static<typeof Annotation> {
  return { object: { type: 'console/branch', id }, value: annotation, created_at, updated_at }
}

const Sort = Type.Union([Type.Literal('name'), Type.Literal('created_at'), Type.Literal('updated_at')])

export const listProjectBranches = route('GET /projects/:project_id/branches', {
  summary: 'List the branches of a project',
  tag: 'Branch',
  params: ProjectId,
  query: Type.Object({
    search: Type.Optional(Type.String({ description: 'Only those with this in their name or id' })),
    sort_by: Type.Optional(Sort),
    sort_order: Type.Optional(Type.String({ pattern: '^(asc|desc|ASC|DESC)$' })),
    limit: Type.Integer({ minimum: 1, maximum: 10_000, default: 10_000 }),
    cursor: Type.Optional(Type.String({ description: 'pagination.next of the page before' })),
  }),
  returns: Type.Object({
    branches: Type.Array(Branch),
    annotations: Type.Record(Type.String(), Annotation),
    pagination: Type.Optional(
      Type.Object({ next: Type.Optional(Type.String()), sort_by: Type.String(), sort_order: Type.String() }),
    ),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params, query }, context) => {
  await requireProject(context, params.project_id)
  const limit = query.limit ?? 10_000
  const cursor = query.cursor === undefined ? undefined : readCursor(query.cursor)
  const sort = cursor?.sort_by ?? query.sort_by ?? 'updated_at'
  const order = cursor?.sort_order ?? (query.sort_order?.toUpperCase() === 'ASC' ? 'ASC' : 'DESC')
  const branches = await listBranches(context.db, params.project_id, {
    search: query.search,
    sort,
    descending: order === 'DESC',
    limit,
    after: cursor && [cursor.sort_by_value, cursor.branch_id],
  })
  const last = branches.length === limit ? branches.at(-1) : undefined
  const next =
    last && writeCursor({ branch_id: last.id, sort_by: sort, sort_by_value: last.sort_value, sort_order: order })
  const transfers = await branchTransfers(context.db, params.project_id)
  const annotated = branches.filter(({ annotation }) => Object.keys(annotation).length > 0)
  return {
    branches: branches.map((branch) => presentBranch(branch, transfers.get(branch.id))),
    annotations: Object.fromEntries(annotated.map((branch) => [branch.id, presentAnnotation(branch)])),
    ...(branches.length > 0 && { pagination: { ...(next && { next }), sort_by: sort, sort_order: order } }),
  }
})

/** Where the next page begins: all of it in the cursor, so that pages stay the same whatever is asked beside it. */
const Cursor = Type.Object({
  branch_id: Type.String(),
  sort_by: Sort,
  sort_by_value: Type.String(),
  sort_order: Type.Union([Type.Literal('ASC'), Type.Literal('DESC')]),
})

const writeCursor = (cursor: Static<typeof Cursor>) => Buffer.from(JSON.stringify(cursor)).toString('base64')

/** Errors: INVALID_REQUEST. */
function readCursor(text: string): Static<typeof Cursor> {
  try {
    return Value.Parse(Cursor, JSON.parse(Buffer.from(text, 'base64').toString('utf8')))
  } catch (error) {
    throw new AppError(
      'INVALID_REQUEST',
      'cursor is not one of ours: pass pagination.next of the page before as it is.',
      { cause: error },
    )
  }
}

export const countProjectBranches = route('GET /projects/:project_id/branches/count', {
  summary: 'Count the branches of a project',
  tag: 'Branch',
  params: ProjectId,
  query: Type.Object({ search: Type.Optional(Type.String()) }),
  returns: Type.Object({ count: Type.Integer() }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params, query }, context) => {
  await requireProject(context, params.project_id)
  return { count: await countBranches(context.db, params.project_id, query.search) }
})

export const getBranch = route('GET /projects/:project_id/branches/:branch_id', {
  summary: 'Get a branch',
  tag: 'Branch',
  params: BranchId,
  returns: Type.Object({ branch: Branch, annotation: Annotation }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  return { branch: await presentWithTransfer(context.db, branch), annotation: presentAnnotation(branch) }
})

const BranchAndOperations = Type.Object({ branch: Branch, operations: Type.Array(Operation) })

export const updateProjectBranch = route('PATCH /projects/:project_id/branches/:branch_id', {
  summary: 'Rename a branch, protect it, or say when it is to be deleted',
  tag: 'Branch',
  params: BranchId,
  body: Type.Object({
    branch: Type.Object({
      name: Type.Optional(Type.String({ maxLength: 256 })),
      protected: Type.Optional(Type.Boolean()),
      expires_at: Type.Optional(Type.Union([Type.String({ format: 'date-time' }), Type.Null()])),
    }),
  }),
  returns: BranchAndOperations,
  errors: ['NOT_FOUND', 'BRANCH_ALREADY_EXISTS', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const { db } = context
  const project = await lockedProject(context, params.project_id)
  const before = await requireBranch(context, project.id, params.branch_id)
  const { name, expires_at, protected: isProtected = before.protected } = body.branch
  if (name !== undefined && name !== before.name) await requireFreeName(context, project.id, name)
  if (expires_at && (isProtected || before.is_default || (await hasChildren(db, before.id))))
    throw new AppError('NOT_ALLOWED', 'A default or protected branch, or one that has children, cannot expire.')
  if (before.expires_at && expires_at === undefined && isProtected)
    throw new AppError('NOT_ALLOWED', 'The branch expires: take that away first with expires_at: null.')
  const branch = await updateBranch(db, before.id, {
    name,
    protected: isProtected,
    expires_at: expires_at && requireFuture('expires_at', expires_at),
  })
  return { branch: await presentWithTransfer(context.db, branch), operations: [] }
})

/** Errors: BRANCH_ALREADY_EXISTS. */
export async function requireFreeName({ db }: RequestContext, projectId: string, name: string): Promise<void> {
  if (await findBranchNamed(db, projectId, name))
    throw new AppError('BRANCH_ALREADY_EXISTS', `branch already exists; branch_name:"${name}"`)
}

/** Room for one branch more, or for the copy that a restore makes. Errors: BRANCHES_LIMIT_EXCEEDED. */
export async function requireRoomForBranch({ db, config }: RequestContext, projectId: string): Promise<void> {
  if ((await countAgainstQuota(db, projectId)) >= config.branchesLimit)
    throw new AppError(
      'BRANCHES_LIMIT_EXCEEDED',
      `The project has ${config.branchesLimit} branches, as many as it may. Delete one, or raise NEAP_BRANCHES_LIMIT.`,
    )
}

export const setProjectDefaultBranch = route('POST /projects/:project_id/branches/:branch_id/set_as_default', {
  summary: 'Make a branch the default one of its project',
  tag: 'Branch',
  params: BranchId,
  returns: BranchAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(({ params }, context) => makeDefault(context, params))

export const setProjectPrimaryBranch = route('POST /projects/:project_id/branches/:branch_id/set_as_primary', {
  summary: 'The same as set_as_default, by the name that older clients know',
  tag: 'Branch',
  params: BranchId,
  returns: BranchAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(({ params }, context) => makeDefault(context, params))

async function makeDefault(
  context: RequestContext,
  params: Static<typeof BranchId>,
): Promise<Static<typeof BranchAndOperations>> {
  const project = await lockedProject(context, params.project_id)
  const { id, expires_at } = await requireBranch(context, project.id, params.branch_id)
  if (expires_at) throw new AppError('NOT_ALLOWED', 'The branch expires: take that away first with expires_at: null.')
  const branch = await setDefaultBranch(context.db, project.id, id)
  return { branch: await presentWithTransfer(context.db, branch), operations: [] }
}

export const deleteBranch = route('DELETE /projects/:project_id/branches/:branch_id', {
  summary: 'Delete a branch, its endpoint and its data',
  tag: 'Branch',
  params: BranchId,
  returns: BranchAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  const { db } = context
  const project = await lockedProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  if (branch.is_default)
    throw new AppError(
      'NOT_ALLOWED',
      'cannot delete the default branch; delete the project, or make another branch the default first',
    )
  if (branch.protected) throw new AppError('NOT_ALLOWED', 'cannot delete a protected branch')
  if (await hasChildren(db, branch.id)) throw new AppError('NOT_ALLOWED', 'cannot delete branch that has children')
  const operations = await removeBranch(db, branch)
  return {
    branch: await presentWithTransfer(context.db, branch),
    operations: operations.map((each) => presentOperation(each)),
  }
})
