import { type Static, Type } from 'typebox'
import type { Branch } from '../catalog/branch.ts'
import type { Masking } from '../catalog/masking.ts'

const Name = Type.String({ minLength: 1, maxLength: 63 })

export const MaskingRule = Type.Object({
  database_name: Name,
  schema_name: Name,
  table_name: Name,
  column_name: Name,
  masking_function: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 10_000,
      description: 'An expression in SQL for the new value, with functions of anon or others, and columns of the row',
    }),
  ),
  masking_value: Type.Optional(Type.String({ maxLength: 10_000, description: 'One value for all rows' })),
})

export const MaskingRules = Type.Array(MaskingRule, { maxItems: 1_000 })

/** How far an anonymized branch is. */
export const AnonymizationState = Type.Union([
  Type.Literal('created'),
  Type.Literal('initialized'),
  Type.Literal('initialization_error'),
  Type.Literal('anonymizing'),
  Type.Literal('anonymized'),
  Type.Literal('error'),
])

export const AnonymizedStatus = Type.Object(
  {
    project_id: Type.String(),
    branch_id: Type.String(),
    state: AnonymizationState,
    status_message: Type.Optional(Type.String()),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
    failed_at: Type.Optional(Type.String({ format: 'date-time' })),
    last_run: Type.Optional(
      Type.Object({
        started_at: Type.String({ format: 'date-time' }),
        completed_at: Type.Optional(Type.String({ format: 'date-time' })),
        masked_columns: Type.Optional(Type.Integer()),
      }),
    ),
  },
  { $id: 'AnonymizedStatus' },
)

/** How far an anonymized branch is, as clients see it. */
export function anonymizedStatusView(branch: Branch, masking: Masking): Static<typeof AnonymizedStatus> {
  const { message, created_at, updated_at, started_at, completed_at, failed_at, masked_columns } = masking
  return {
    project_id: branch.project_id,
    branch_id: branch.id,
    state: anonymizationState(branch) ?? 'initialized',
    ...(message !== null && { status_message: message }),
    created_at,
    updated_at,
    ...(failed_at && { failed_at }),
    ...(started_at && {
      last_run: {
        started_at,
        ...(completed_at && { completed_at }),
        ...(masked_columns !== null && { masked_columns }),
      },
    }),
  }
}

/** Undefined of a branch that is no anonymized one. */
export function anonymizationState({
  masking_state,
  current_state,
  pending_state,
}: Branch): Static<typeof AnonymizationState> | undefined {
  if (masking_state === null) return undefined
  if (current_state === 'init' && pending_state === null) return 'initialization_error'
  return current_state === 'init' && masking_state === 'initialized' ? 'created' : masking_state
}
