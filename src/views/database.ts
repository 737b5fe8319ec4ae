import { type Static, Type } from 'typebox'
import type { Database as DatabaseRow } from '../catalog/database.ts'

export const Database = Type.Object(
  {
    id: Type.Integer(),
    branch_id: Type.String(),
    name: Type.String(),
    owner_name: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Database' },
)

export function databaseView({
  id,
  branch_id,
  name,
  owner_name,
  created_at,
  updated_at,
}: DatabaseRow): Static<typeof Database> {
  return { id, branch_id, name, owner_name, created_at, updated_at }
}
