import { Type } from 'typebox'
import { findOperation, listOperations, type Operation as OperationRow } from '../../catalog/operation.ts'
import { findProjectEver } from '../../catalog/project.ts'
import { AppError } from '../../errors.ts'
import { cancel } from '../../operations/cancel.ts'
import { lockedProject } from '../require.ts'
import { type RequestContext, route } from '../route.ts'

const Status = Type.Union([
  Type.Literal('scheduling'),
  Type.Literal('running'),
  Type.Literal('finished'),
  Type.Literal('failed'),
])

export const Operation = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    project_id: Type.String(),
    branch_id: Type.Optional(Type.String()),
    endpoint_id: Type.Optional(Type.String()),
    action: Type.String(),
    status: Status,
    error: Type.Optional(Type.String()),
    failures_count: Type.Integer(),
    retry_at: Type.Optional(Type.String({ format: 'date-time' })),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
    total_duration_ms: Type.Integer(),
  },
  { $id: 'Operation' },
)

/** An operation as clients see it, now or at the moment `at`. */
export function presentOperation(row: OperationRow, at = new Date().toISOString()) {
  const ended = row.finished_at ?? at
  return {
    id: row.id,
    project_id: row.project_id,
    ...(row.branch_id && { branch_id: row.branch_id }),
    ...(row.endpoint_id && { endpoint_id: row.endpoint_id }),
    action: row.action,
    status: row.status,
    ...(row.error && { error: row.error }),
    failures_count: row.failures_count,
    ...(row.retry_at && { retry_at: row.retry_at }),
    created_at: row.created_at,
    updated_at: row.updated_at,
    total_duration_ms: row.started_at ? Math.max(0, Date.parse(ended) - Date.parse(row.created_at)) : 0,
  }
}

const ProjectId = Type.Object({ project_id: Type.String() })
const OperationId = Type.Object({
  project_id: Type.String(),
  operation_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
})

export const listProjectOperations = route('GET /projects/:project_id/operations', {
  summary: 'List the operations of a project, newest first',
  tag: 'Operation',
  params: ProjectId,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    cursor: Type.Optional(Type.String({ description: 'pagination.cursor of the page before' })),
    endpoint_id: Type.Optional(Type.String({ description: 'Only those of this endpoint' })),
    branch_id: Type.Optional(Type.String({ description: 'Only those of this branch' })),
    action: Type.Optional(Type.String({ description: 'Only those with this action' })),
    status: Type.Optional(Status),
  }),
  returns: Type.Object({
    operations: Type.Array(Operation),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params, query }, context) => {
  const { limit, cursor, ...filter } = query
  await requireProjectEver(context, params.project_id)
  const operations = await listOperations(context.db, params.project_id, limit ?? 100, parseCursor(cursor), filter)
  const last = operations.at(-1)
  return {
    operations: operations.map((each) => presentOperation(each)),
    ...(last && { pagination: { cursor: last.created_at } }),
  }
})

export const getOperation = route('GET /projects/:project_id/operations/:operation_id', {
  summary: 'Get one operation; with Prefer: wait=<seconds> once it has ended',
  tag: 'Operation',
  params: OperationId,
  waits: true,
  returns: Type.Object({ operation: Operation }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => ({ operation: presentOperation(await requireOperation(context, params)) }))

export const cancelProjectOperation = route('POST /projects/:project_id/operations/:operation_id/cancel', {
  summary: 'Cancel an operation that has not begun',
  tag: 'Operation',
  params: OperationId,
  returns: Type.Object({ operation: Operation }),
  errors: ['NOT_FOUND', 'CONFLICT'],
}).handle(async ({ params }, context) => {
  await lockedProject(context, params.project_id, { strict: false })
  return { operation: presentOperation(await cancel(context.db, await requireOperation(context, params))) }
})

/** Errors: NOT_FOUND, naming the project where it is that which the caller does not have. */
async function requireOperation(
  context: RequestContext,
  params: { project_id: string; operation_id: string },
): Promise<OperationRow> {
  const { db, caller } = context
  const operation = await findOperation(db, caller.account.id, params.project_id, params.operation_id)
  if (operation) return operation
  await requireProjectEver(context, params.project_id)
  throw new AppError('NOT_FOUND', `operation ${params.operation_id} not found`)
}

/** The caller's project, also one that was deleted: its operations stay readable. Errors: NOT_FOUND. */
export async function requireProjectEver({ db, caller }: RequestContext, id: string): Promise<void> {
  if (!(await findProjectEver(db, caller.account.id, id))) throw new AppError('NOT_FOUND', `project ${id} not found`)
}

function parseCursor(cursor: string | undefined): string | undefined {
  if (!cursor) return undefined
  // To Date there is a 30th of February, which is no day to Postgres; nor is there a year 0.
  const time = /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/.test(cursor) ? new Date(cursor) : undefined
  if (time && !Number.isNaN(time.getTime()) && time.toISOString().startsWith(cursor.slice(0, 19))) return cursor
  throw new AppError(
    'INVALID_REQUEST',
    'cursor is not one of ours: pass pagination.cursor of the page before as it is.',
  )
}
