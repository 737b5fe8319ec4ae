import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { type Branch as BranchRow, countBranches, listBranches } from '../../catalog/branch.ts'
import { branchUses } from '../../catalog/consumption.ts'
import { requireBranch, requireProject } from '../../commands/require.ts'
import { changeBranch, makeBranchDefault } from '../../commands/update_branch.ts'
import { AppError } from '../../errors.ts'
import { Branch, branchView, branchViewWithUse } from '../../views/branch.ts'
import { Operation } from '../../views/operation.ts'
import { HistoryRetention } from '../../views/project_settings.ts'
import { route } from '../route.ts'
import { BranchParams, ProjectParams } from '../path_params.ts'

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
  params: ProjectParams,
  query: Type.Object({
    search: Type.Optional(Type.String({ description: 'Only those with this in their name or id' })),
    sort_by: Type.Optional(Sort),
    sort_order: Type.Optional(Type.String({ pattern: '^(asc|desc|ASC|DESC)$' })),
    limit: Type.Integer({ minimum: 1, maximum: 10_000, default: 10_000 }),
    cursor: Type.Optional(Type.String({ description: 'pagination.next of the page before' })),
    include_deleted: Type.Optional(
      Type.Boolean({ description: 'Also deleted ones that can be recovered: those with recovery' }),
    ),
    recoverable: Type.Optional(Type.Boolean({ description: 'Neap only. Only deleted ones that can be recovered' })),
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
    withDeleted: query.include_deleted,
    onlyDeleted: query.recoverable,
    after: cursor && [cursor.sort_by_value, cursor.branch_id],
  })
  const last = branches.length === limit ? branches.at(-1) : undefined
  const next =
    last && writeCursor({ branch_id: last.id, sort_by: sort, sort_by_value: last.sort_value, sort_order: order })
  const uses = await branchUses(context.db, params.project_id)
  const annotated = branches.filter(({ annotation }) => Object.keys(annotation).length > 0)
  return {
    branches: branches.map((branch) => branchView(branch, uses.get(branch.id))),
    annotations: Object.fromEntries(annotated.map((branch) => [branch.id, presentAnnotation(branch)])),
    ...(branches.length > 0 && { pagination: { ...(next && { next }), sort_by: sort, sort_order: order } }),
  }
})

/** The position of the next page, with the order of the list: it takes precedence over the query's. */
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
  params: ProjectParams,
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
  params: BranchParams,
  returns: Type.Object({ branch: Branch, annotation: Annotation }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  return { branch: await branchViewWithUse(context.db, branch), annotation: presentAnnotation(branch) }
})

const BranchAndOperations = Type.Object({ branch: Branch, operations: Type.Array(Operation) })

export const updateProjectBranch = route('PATCH /projects/:project_id/branches/:branch_id', {
  summary: 'Rename a branch, protect it, or say when it is to be deleted and for how long its history is kept',
  tag: 'Branch',
  params: BranchParams,
  body: Type.Object({
    branch: Type.Object({
      name: Type.Optional(Type.String({ maxLength: 256 })),
      protected: Type.Optional(Type.Boolean()),
      expires_at: Type.Optional(Type.Union([Type.String({ format: 'date-time' }), Type.Null()])),
      history_retention_seconds: Type.Optional(Type.Union([HistoryRetention, Type.Null()])),
    }),
  }),
  returns: BranchAndOperations,
  errors: ['NOT_FOUND', 'BRANCH_ALREADY_EXISTS', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const branch = await changeBranch(context, params, body.branch)
  return { branch: await branchViewWithUse(context.db, branch), operations: [] }
})

export const setProjectDefaultBranch = route('POST /projects/:project_id/branches/:branch_id/set_as_default', {
  summary: 'Make a branch the default one of its project',
  tag: 'Branch',
  params: BranchParams,
  returns: BranchAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => ({
  branch: await branchViewWithUse(context.db, await makeBranchDefault(context, params)),
  operations: [],
}))

export const setProjectPrimaryBranch = route('POST /projects/:project_id/branches/:branch_id/set_as_primary', {
  summary: 'The same as set_as_default, by the name that older clients know',
  tag: 'Branch',
  params: BranchParams,
  returns: BranchAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => ({
  branch: await branchViewWithUse(context.db, await makeBranchDefault(context, params)),
  operations: [],
}))
