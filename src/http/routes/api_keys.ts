import { type Static, Type } from 'typebox'
import { type Account, lockAccount } from '../../catalog/account.ts'
import { type ApiKey, insertApiKey, listApiKeys, revokeApiKey } from '../../catalog/api_key.ts'
import { requireFuture, requireProject } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { newApiKey } from '../../secrets/generated.ts'
import { type RequestContext, route } from '../route.ts'

const Scope = Type.Union([Type.Literal('read'), Type.Literal('write'), Type.Literal('admin')])
const LastUse = { last_used_at: Type.Union([Type.String(), Type.Null()]), last_used_from_addr: Type.String() }

/** Only where it was asked for: public clients take an unasked project_id for a mistake. */
const Restriction = { project_id: Type.Optional(Type.String()), expires_at: Type.Optional(Type.String()) }

function restriction({ project_id, expires_at }: ApiKey) {
  return { ...(project_id && { project_id }), ...(expires_at && { expires_at }) }
}

function lastUse(key: ApiKey) {
  return { last_used_at: key.last_used_at, last_used_from_addr: key.last_used_from }
}

/** More than anybody keeps apart. */
const MAX_KEYS = 1_000

const creator = (account: Account) => ({ id: account.id, name: account.name, image: '' })

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

export const NewKey = Type.Object({
  id: Type.Integer(),
  key: Type.String(),
  name: Type.String(),
  scope: Scope,
  ...Restriction,
  created_at: Type.String(),
  created_by: Type.String(),
})

export const createApiKey = route('POST /api_keys', {
  summary: 'Create an API key; the key itself is shown this once',
  tag: 'API key',
  scope: 'admin',
  body: KeyRequest,
  returns: NewKey,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'API_KEYS_LIMIT_EXCEEDED'],
}).handle(({ body }, context) => createKey(context, body))

/** Errors: NOT_FOUND (the project), NOT_ALLOWED (it would have expired already), API_KEYS_LIMIT_EXCEEDED. */
export async function createKey(
  context: RequestContext,
  body: Static<typeof KeyRequest>,
): Promise<Static<typeof NewKey>> {
  const { db, secrets, caller } = context
  if (body.project_id) await requireProject(context, body.project_id)
  const expires = body.expires_at === undefined ? null : requireFuture('expires_at', body.expires_at)
  await lockAccount(db, caller.account.id)
  if ((await listApiKeys(db, caller.account.id)).length >= MAX_KEYS)
    throw new AppError(
      'API_KEYS_LIMIT_EXCEEDED',
      `The account has ${MAX_KEYS} API keys, as many as it may. Revoke one that is not used any more.`,
    )
  const key = newApiKey()
  const row = await insertApiKey(db, {
    account_id: caller.account.id,
    name: body.key_name,
    scope: body.scope ?? 'write',
    project_id: body.project_id ?? null,
    expires_at: expires,
    ...secrets.hashApiKey(key)[0],
  })
  return {
    id: row.id,
    key,
    name: row.name,
    scope: row.scope,
    ...restriction(row),
    created_at: row.created_at,
    created_by: caller.account.id,
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

export const listKeys = route('GET /api_keys', {
  summary: 'List the API keys that are in force',
  tag: 'API key',
  scope: 'admin',
  returns: KeyList,
  errors: [],
}).handle((_request, context) => presentKeys(context))

/** The keys of the account that are in force. */
export async function presentKeys({ db, caller }: RequestContext): Promise<Static<typeof KeyList>> {
  const keys = await listApiKeys(db, caller.account.id)
  return keys.map((key) => ({
    id: key.id,
    name: key.name,
    scope: key.scope,
    ...restriction(key),
    created_at: key.created_at,
    created_by: creator(caller.account),
    ...lastUse(key),
  }))
}

export const KeyId = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })

export const RevokedKey = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  created_at: Type.String(),
  created_by: Type.String(),
  revoked: Type.Boolean(),
  ...LastUse,
})

export const revokeKey = route('DELETE /api_keys/:key_id', {
  summary: 'Revoke an API key; it stops working at once',
  changesKeys: true,
  tag: 'API key',
  scope: 'admin',
  params: Type.Object({ key_id: KeyId }),
  returns: RevokedKey,
  errors: ['NOT_FOUND'],
}).handle(({ params }, context) => revoke(context, params.key_id))

/** Errors: NOT_FOUND, also for a key of another account. */
export async function revoke({ db, caller }: RequestContext, id: number): Promise<Static<typeof RevokedKey>> {
  const key = await revokeApiKey(db, caller.account.id, id)
  if (!key) throw new AppError('NOT_FOUND', `API key ${id} not found`)
  return {
    id: key.id,
    name: key.name,
    created_at: key.created_at,
    created_by: caller.account.id,
    revoked: true,
    ...lastUse(key),
  }
}
