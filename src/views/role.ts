import { type Static, Type } from 'typebox'
import type { Role as RoleRow } from '../catalog/role.ts'

export const Role = Type.Object(
  {
    branch_id: Type.String(),
    name: Type.String(),
    password: Type.Optional(Type.String()),
    protected: Type.Boolean(),
    authentication_method: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Role' },
)

/** A role as clients see it; with its password only if that was just created or reset. */
export function roleView(row: RoleRow, password?: string): Static<typeof Role> {
  return {
    branch_id: row.branch_id,
    name: row.name,
    ...(password && { password }),
    protected: false,
    authentication_method: row.login ? 'password' : 'no_login',
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}
