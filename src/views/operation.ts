import { Type } from 'typebox'
import type { Operation as OperationRow } from '../catalog/operation.ts'

export const OperationStatus = Type.Union([
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
    status: OperationStatus,
    reason: Type.Optional(
      Type.String({ description: 'Why a start or a suspend was asked for, as request, connection or idle' }),
    ),
    error: Type.Optional(Type.String()),
    wait_reason: Type.Optional(Type.String({ description: 'What it waits for at the moment' })),
    failures_count: Type.Integer(),
    retry_at: Type.Optional(Type.String({ format: 'date-time' })),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
    total_duration_ms: Type.Integer(),
  },
  { $id: 'Operation' },
)

/** An operation as clients see it, now or at the moment `at`. */
export function operationView(
  row: Omit<OperationRow, 'wait_reason'> & Partial<OperationRow>,
  at = new Date().toISOString(),
) {
  const ended = row.finished_at ?? at
  return {
    id: row.id,
    project_id: row.project_id,
    ...(row.branch_id && { branch_id: row.branch_id }),
    ...(row.endpoint_id && { endpoint_id: row.endpoint_id }),
    action: row.action,
    status: row.status,
    ...(row.reason && { reason: row.reason }),
    ...(row.error && { error: row.error }),
    ...(row.wait_reason && { wait_reason: row.wait_reason }),
    failures_count: row.failures_count,
    ...(row.retry_at && { retry_at: row.retry_at }),
    created_at: row.created_at,
    updated_at: row.updated_at,
    total_duration_ms: row.started_at ? Math.max(0, Date.parse(ended) - Date.parse(row.created_at)) : 0,
  }
}
