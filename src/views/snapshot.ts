import { type Static, Type } from 'typebox'
import type { Snapshot as SnapshotRow } from '../catalog/snapshot.ts'

export const Snapshot = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    lsn: Type.Optional(Type.String()),
    timestamp: Type.Optional(Type.String({ format: 'date-time' })),
    source_branch_id: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
    expires_at: Type.Optional(Type.String({ format: 'date-time' })),
    manual: Type.Boolean(),
    full_size: Type.Optional(Type.Integer({ description: 'Bytes of its databases, without WAL' })),
    diff_size: Type.Optional(Type.Integer({ description: 'Bytes that no branch and no other snapshot has' })),
  },
  { $id: 'Snapshot' },
)

/** A snapshot as clients see it. */
export function snapshotView(row: SnapshotRow): Static<typeof Snapshot> {
  return {
    id: row.id,
    name: row.name,
    ...(row.lsn && { lsn: row.lsn }),
    ...(row.taken_of && { timestamp: row.taken_of }),
    source_branch_id: row.source_branch_id,
    created_at: row.created_at,
    ...(row.expires_at && { expires_at: row.expires_at }),
    manual: !row.is_scheduled,
    ...(row.logical_bytes !== null && { full_size: row.logical_bytes }),
    ...(row.own_bytes !== null && { diff_size: row.own_bytes }),
  }
}
