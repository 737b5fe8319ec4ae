import { Type } from 'typebox'
import { listApiKeys } from '../../catalog/api_key.ts'
import { createKey, revokeKey } from '../../commands/api_key.ts'
import { KeyList, keyView, NewKey, newKeyView, RevokedKey, revokedKeyView } from '../../views/api_key.ts'
import { route } from '../route.ts'
import { KeyId, KeyRequest } from './api_keys.ts'
import { OrganizationId, requireOrganization } from './organizations.ts'

/* An organization is an account, so its keys are those of the account, the same as under /api_keys. */

export const createOrganizationApiKey = route('POST /organizations/:org_id/api_keys', {
  summary: 'Create an API key of an organization; the key itself is shown this once',
  tag: 'API key',
  scope: 'admin',
  params: OrganizationId,
  body: KeyRequest,
  returns: NewKey,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'API_KEYS_LIMIT_EXCEEDED'],
}).handle(async ({ params, body }, context) => {
  requireOrganization(context, params.org_id)
  return newKeyView(await createKey(context, body))
})

export const listOrganizationApiKeys = route('GET /organizations/:org_id/api_keys', {
  summary: 'List the API keys of an organization that are in force',
  tag: 'API key',
  scope: 'admin',
  params: OrganizationId,
  returns: KeyList,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  requireOrganization(context, params.org_id)
  const { db, account } = context
  return (await listApiKeys(db, account.id)).map((key) => keyView(key, account))
})

export const revokeOrganizationApiKey = route('DELETE /organizations/:org_id/api_keys/:key_id', {
  summary: 'Revoke an API key of an organization; it stops working at once',
  changesKeys: true,
  tag: 'API key',
  scope: 'admin',
  params: Type.Object({ ...OrganizationId.properties, key_id: KeyId }),
  returns: RevokedKey,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  requireOrganization(context, params.org_id)
  return revokedKeyView(await revokeKey(context, params.key_id))
})
