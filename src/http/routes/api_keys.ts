import { Type } from 'typebox'
import { listApiKeys } from '../../catalog/api_key.ts'
import { createKey, revokeKey } from '../../commands/api_key.ts'
import { KeyList, keyView, NewKey, newKeyView, RevokedKey, revokedKeyView, Scope } from '../../views/api_key.ts'
import { route } from '../route.ts'

export const KeyRequest = Type.Object({
  key_name: Type.String({ minLength: 1, maxLength: 64 }),
  scope: Type.Optional(
    Type.Union(Scope.anyOf, {
      description: '`write` unless said; keys of the scope `admin` alone make and revoke keys',
    }),
  ),
  project_id: Type.Optional(Type.String({ description: 'The one project that the key is for' })),
  expires_at: Type.Optional(Type.String({ format: 'date-time', description: 'When the key ceases to work' })),
})

export const createApiKey = route('POST /api_keys', {
  summary: 'Create an API key; the key itself is shown this once',
  tag: 'API key',
  scope: 'admin',
  body: KeyRequest,
  returns: NewKey,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'API_KEYS_LIMIT_EXCEEDED'],
}).handle(async ({ body }, context) => newKeyView(await createKey(context, body)))

export const listKeys = route('GET /api_keys', {
  summary: 'List the API keys that are in force',
  tag: 'API key',
  scope: 'admin',
  returns: KeyList,
  errors: [],
}).handle(async (_request, { db, account }) => (await listApiKeys(db, account.id)).map((key) => keyView(key, account)))

export const KeyId = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })

export const revokeAccountKey = route('DELETE /api_keys/:key_id', {
  summary: 'Revoke an API key; it stops working at once',
  changesKeys: true,
  tag: 'API key',
  scope: 'admin',
  params: Type.Object({ key_id: KeyId }),
  returns: RevokedKey,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => revokedKeyView(await revokeKey(context, params.key_id)))
