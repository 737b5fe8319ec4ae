import { lockAccount } from '../catalog/account.ts'
import { type ApiKey, insertApiKey, listApiKeys, revokeApiKey, type Scope } from '../catalog/api_key.ts'
import { AppError } from '../errors.ts'
import { newApiKey } from '../secrets/generated.ts'
import type { CommandContext } from './command.ts'
import { requireFuture, requireProject } from './require.ts'

const MAX_KEYS = 1_000

export interface AskedKey {
  readonly key_name: string
  readonly scope?: Scope
  readonly project_id?: string
  readonly expires_at?: string
}

/** Creates an API key. Errors: NOT_FOUND (project), NOT_ALLOWED (the expiry has passed), API_KEYS_LIMIT_EXCEEDED. */
export async function createKey(context: CommandContext, asked: AskedKey): Promise<{ row: ApiKey; key: string }> {
  const { db, secrets, account } = context
  if (asked.project_id) await requireProject(context, asked.project_id)
  const expires = asked.expires_at === undefined ? null : requireFuture('expires_at', asked.expires_at)
  await lockAccount(db, account.id)
  if ((await listApiKeys(db, account.id)).length >= MAX_KEYS)
    throw new AppError(
      'API_KEYS_LIMIT_EXCEEDED',
      `The account has ${MAX_KEYS} API keys, as many as it may. Revoke one that is not used any more.`,
    )
  const key = newApiKey()
  const row = await insertApiKey(db, {
    account_id: account.id,
    name: asked.key_name,
    scope: asked.scope ?? 'write',
    project_id: asked.project_id ?? null,
    expires_at: expires,
    ...secrets.hashApiKey(key)[0],
  })
  return { row, key }
}

/** Revokes an API key. Errors: NOT_FOUND, also for a key of another account. */
export async function revokeKey({ db, account }: CommandContext, id: number): Promise<ApiKey> {
  const key = await revokeApiKey(db, account.id, id)
  if (!key) throw new AppError('NOT_FOUND', `API key ${id} not found`)
  return key
}
