import { type Static, Type } from 'typebox'
import type { Branch as BranchRow } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { branchUses, NO_USE, type Consumed } from '../catalog/consumption.ts'
import { AnonymizationState, anonymizationState } from './masking.ts'

const BranchState = Type.Union([Type.Literal('init'), Type.Literal('ready'), Type.Literal('archived')])

export const Branch = Type.Object(
  {
    id: Type.String(),
    project_id: Type.String(),
    parent_id: Type.Optional(Type.String()),
    name: Type.String(),
    current_state: BranchState,
    pending_state: Type.Optional(BranchState),
    state_changed_at: Type.String({ format: 'date-time' }),
    creation_source: Type.String(),
    init_source: Type.Optional(Type.String()),
    primary: Type.Boolean(),
    default: Type.Boolean(),
    protected: Type.Boolean(),
    expires_at: Type.Optional(Type.String({ format: 'date-time' })),
    ttl_interval_seconds: Type.Optional(Type.Integer()),
    history_retention_seconds: Type.Optional(
      Type.Integer({
        description: 'For how long its moments stay within reach, where that is not as its project says',
      }),
    ),
    parent_timestamp: Type.Optional(Type.String({ format: 'date-time' })),
    parent_lsn: Type.Optional(Type.String()),
    last_reset_at: Type.Optional(Type.String({ format: 'date-time' })),
    restore_status: Type.Optional(Type.Union([Type.Literal('restored'), Type.Literal('finalized')])),
    restored_from: Type.Optional(Type.String({ description: 'The snapshot that it was made of' })),
    restored_as: Type.Optional(Type.String({ description: 'The branch that it was made to replace' })),
    anonymization_state: Type.Optional(AnonymizationState),
    logical_size: Type.Optional(
      Type.Integer({ description: 'Bytes of its databases, without WAL, when they were last measured' }),
    ),
    cpu_used_sec: Type.Integer(),
    compute_time_seconds: Type.Integer(),
    active_time_seconds: Type.Integer(),
    written_data_bytes: Type.Integer(),
    data_transfer_bytes: Type.Integer(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
    recovery: Type.Optional(
      Type.Object(
        {
          deleted_at: Type.String({ format: 'date-time' }),
          recoverable_until: Type.String({ format: 'date-time' }),
          deletion_method: Type.Union([Type.Literal('user'), Type.Literal('ttl')]),
        },
        { description: 'Of a deleted branch that can be recovered' },
      ),
    ),
  },
  { $id: 'Branch' },
)

/** What a branch or a project has used, as clients see it: whole seconds and bytes. */
export const useView = ({ compute_seconds, active_seconds, written_bytes, transfer_bytes }: Consumed) => ({
  cpu_used_sec: Math.round(compute_seconds),
  compute_time_seconds: Math.round(compute_seconds),
  active_time_seconds: Math.round(active_seconds),
  written_data_bytes: written_bytes,
  data_transfer_bytes: transfer_bytes,
})

/**
 * A branch as clients see it.
 * @param use its use this month
 */
export function branchView(row: BranchRow, use: Consumed = NO_USE): Static<typeof Branch> {
  const anonymization_state = anonymizationState(row)
  return {
    id: row.id,
    project_id: row.project_id,
    ...(row.parent_id && { parent_id: row.parent_id }),
    name: row.name,
    current_state: row.current_state,
    ...(row.pending_state && { pending_state: row.pending_state }),
    state_changed_at: row.state_changed_at,
    creation_source: row.creation_source,
    ...((row.init_source ?? row.parent_id) && { init_source: row.init_source ?? 'parent-data' }),
    primary: row.is_default,
    default: row.is_default,
    protected: row.protected,
    ...(row.expires_at && { expires_at: row.expires_at }),
    ...(row.expires_at && row.ttl_seconds !== null && { ttl_interval_seconds: row.ttl_seconds }),
    ...(row.history_retention_seconds !== null && { history_retention_seconds: row.history_retention_seconds }),
    ...(row.parent_timestamp && { parent_timestamp: row.parent_timestamp }),
    ...(row.parent_lsn && { parent_lsn: row.parent_lsn }),
    ...(row.last_reset_at && { last_reset_at: row.last_reset_at }),
    ...(row.restore_status && { restore_status: row.restore_status }),
    ...(row.restored_from && { restored_from: row.restored_from }),
    ...(row.restored_as && { restored_as: row.restored_as }),
    ...(anonymization_state && { anonymization_state }),
    ...(row.logical_bytes !== null && { logical_size: row.logical_bytes }),
    ...useView(use),
    created_at: row.created_at,
    updated_at: row.updated_at,
    ...recoveryView(row),
  }
}

function recoveryView({ deleted_at, recoverable_until, deletion_method }: BranchRow) {
  if (!deleted_at || !recoverable_until || !deletion_method) return undefined
  return { recovery: { deleted_at, recoverable_until, deletion_method } }
}

/** `branchView` with the branch's use this month. */
export async function branchViewWithUse(db: Db, row: BranchRow): Promise<Static<typeof Branch>> {
  return branchView(row, (await branchUses(db, row.project_id, row.id)).get(row.id))
}
