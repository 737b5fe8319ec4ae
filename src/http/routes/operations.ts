import { Type } from 'typebox'
import { findOperation, listOperations, type Operation as OperationRow } from '../../catalog/operation.ts'
import { findProjectEver } from '../../catalog/project.ts'
import { cancel } from '../../commands/cancel_operation.ts'
import { lockedProject } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { Operation, OperationStatus, operationView } from '../../views/operation.ts'
import { type RequestContext, route } from '../route.ts'
import { ProjectParams } from '../path_params.ts'

export const OperationId = Type.Object({
  project_id: Type.String(),
  operation_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
})

export const listProjectOperations = route('GET /projects/:project_id/operations', {
  summary: 'List the operations of a project, newest first',
  tag: 'Operation',
  params: ProjectParams,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    cursor: Type.Optional(Type.String({ description: 'pagination.cursor of the page before' })),
    endpoint_id: Type.Optional(Type.String({ description: 'Only those of this endpoint' })),
    branch_id: Type.Optional(Type.String({ description: 'Only those of this branch' })),
    action: Type.Optional(Type.String({ description: 'Only those with this action' })),
    status: Type.Optional(OperationStatus),
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
    operations: operations.map((each) => operationView(each)),
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
}).handle(async ({ params }, context) => ({ operation: operationView(await requireOperation(context, params)) }))

export const cancelProjectOperation = route('POST /projects/:project_id/operations/:operation_id/cancel', {
  summary: 'Cancel an operation that has not begun',
  tag: 'Operation',
  params: OperationId,
  returns: Type.Object({ operation: Operation }),
  errors: ['NOT_FOUND', 'CONFLICT'],
}).handle(async ({ params }, context) => {
  await lockedProject(context, params.project_id, { strict: false, relieves: true })
  return { operation: operationView(await cancel(context.db, await requireOperation(context, params))) }
})

/** Errors: NOT_FOUND (the operation, or the project if the caller has no such project). */
export async function requireOperation(
  context: RequestContext,
  params: { project_id: string; operation_id: string },
): Promise<OperationRow> {
  const { db, caller } = context
  const operation = await findOperation(db, caller.account.id, params.project_id, params.operation_id)
  if (operation) return operation
  await requireProjectEver(context, params.project_id)
  throw new AppError('NOT_FOUND', `operation ${params.operation_id} not found`)
}

/** Requires a project of the caller, also a deleted one: its operations stay readable. Errors: NOT_FOUND. */
export async function requireProjectEver({ db, caller }: RequestContext, id: string): Promise<void> {
  if (!(await findProjectEver(db, caller.account.id, id))) throw new AppError('NOT_FOUND', `project ${id} not found`)
}

function parseCursor(cursor: string | undefined): string | undefined {
  if (!cursor) return undefined
  // Date accepts February 30, and the year 0; Postgres does not.
  const time = /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/.test(cursor) ? new Date(cursor) : undefined
  if (time && !Number.isNaN(time.getTime()) && time.toISOString().startsWith(cursor.slice(0, 19))) return cursor
  throw new AppError(
    'INVALID_REQUEST',
    'cursor is not one of ours: pass pagination.cursor of the page before as it is.',
  )
}
