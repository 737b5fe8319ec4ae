import { type Static, Type } from 'typebox'
import type { ShownLogin } from '../catalog/passwordless_login.ts'

export const PasswordlessLogin = Type.Object(
  {
    id: Type.String({ format: 'uuid', description: 'The request_id of its audit entries' }),
    status: Type.Enum(['pending', 'approved', 'refused', 'withdrawn', 'expired'], {
      description: 'withdrawn: the client has gone',
    }),
    project_id: Type.String(),
    project_name: Type.String(),
    branch_id: Type.String(),
    branch_name: Type.String(),
    endpoint_id: Type.String(),
    role_name: Type.String(),
    database_name: Type.String(),
    application_name: Type.String({ description: 'As the client calls itself' }),
    client_address: Type.String({ description: 'As the proxy sees it' }),
    is_own_address: Type.Boolean({ description: 'Whether the request for this answer comes from that address' }),
    created_at: Type.String({ format: 'date-time' }),
    expires_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'PasswordlessLogin' },
)

/** A login that waits, as clients see it. @param address of the request */
export function passwordlessLoginView(row: ShownLogin, address: string): Static<typeof PasswordlessLogin> {
  const { status, expired, account_id: _account, public_key: _key, ...shown } = row
  return {
    ...shown,
    status: status === 'taken' ? 'approved' : status === 'pending' && expired ? 'expired' : status,
    is_own_address: address !== '' && address === row.client_address,
  }
}
