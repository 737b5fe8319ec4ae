import { type Static, Type } from 'typebox'
import type { Account } from '../catalog/account.ts'
import type { ApiKey } from '../catalog/api_key.ts'

export const Scope = Type.Union([Type.Literal('read'), Type.Literal('write'), Type.Literal('admin')])

const LastUse = { last_used_at: Type.Union([Type.String(), Type.Null()]), last_used_from_addr: Type.String() }

/** Present only if set: public clients treat an unrequested project_id as an error. */
const Restriction = { project_id: Type.Optional(Type.String()), expires_at: Type.Optional(Type.String()) }

export const NewKey = Type.Object({
  id: Type.Integer(),
  key: Type.String(),
  name: Type.String(),
  scope: Scope,
  ...Restriction,
  created_at: Type.String(),
  created_by: Type.String(),
})

/** A new key as clients see it: the only response that contains `key`. */
export function newKeyView({ row, key }: { readonly row: ApiKey; readonly key: string }): Static<typeof NewKey> {
  return {
    id: row.id,
    key,
    name: row.name,
    scope: row.scope,
    ...restriction(row),
    created_at: row.created_at,
    created_by: row.account_id,
  }
}

export const KeyList = Type.Array(
  Type.Object({
    id: Type.Integer(),
    name: Type.String(),
    scope: Scope,
    ...Restriction,
    created_at: Type.String(),
    created_by: Type.Object({ id: Type.String(), name: Type.String(), image: Type.String() }),
    ...LastUse,
  }),
)

/** A key in a list. */
export function keyView(key: ApiKey, account: Account): Static<typeof KeyList>[number] {
  return {
    id: key.id,
    name: key.name,
    scope: key.scope,
    ...restriction(key),
    created_at: key.created_at,
    created_by: { id: account.id, name: account.name, image: '' },
    ...lastUse(key),
  }
}

export const RevokedKey = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  created_at: Type.String(),
  created_by: Type.String(),
  revoked: Type.Boolean(),
  ...LastUse,
})

export function revokedKeyView(key: ApiKey): Static<typeof RevokedKey> {
  return {
    id: key.id,
    name: key.name,
    created_at: key.created_at,
    created_by: key.account_id,
    revoked: true,
    ...lastUse(key),
  }
}

function restriction({ project_id, expires_at }: ApiKey) {
  return { ...(project_id && { project_id }), ...(expires_at && { expires_at }) }
}

function lastUse(key: ApiKey) {
  return { last_used_at: key.last_used_at, last_used_from_addr: key.last_used_from }
}
