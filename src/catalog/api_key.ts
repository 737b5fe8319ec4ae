import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

export type Scope = 'read' | 'write' | 'admin'

export interface ApiKey {
  readonly id: number
  readonly account_id: string
  readonly name: string
  readonly scope: Scope
  readonly project_id: string | null
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  readonly last_used_from: string
}

/** The stored form of an API key: its keyed hash, and the generation of the hash key. */
export interface HashedKey {
  readonly hash: Buffer
  readonly generation: string
}

/** Whether a key is valid: neither revoked nor expired. */
const IS_VALID = sql`revoked_at is null and coalesce(expires_at > clock_timestamp(), true)`

export async function insertApiKey(
  tx: Db,
  key: Pick<ApiKey, 'account_id' | 'name' | 'scope'> & Partial<Pick<ApiKey, 'project_id' | 'expires_at'>> & HashedKey,
): Promise<ApiKey> {
  const row = await tx.row<ApiKey>(sql`
    insert into api_key (account_id, name, scope, project_id, expires_at, hash, generation)
    values (${key.account_id}, ${key.name}, ${key.scope}, ${key.project_id}, ${key.expires_at}, ${key.hash},
            ${key.generation})
    returning *`)
  return row as ApiKey
}

/**
 * The key with one of these keyed hashes, and whether it is valid: neither revoked nor expired. For a valid key,
 * records the use at most once a minute, and replaces an older hash by the first one given, which is made with the
 * current hash key.
 */
export async function useApiKey(
  db: Db,
  hashed: readonly [HashedKey, ...HashedKey[]],
  address: string,
): Promise<(ApiKey & { readonly in_force: boolean }) | undefined> {
  const [current] = hashed
  const key = await db.row<ApiKey & { in_force: boolean; note_use: boolean }>(sql`
    select *, ${IS_VALID} as in_force,
           hash <> ${current.hash} or coalesce(last_used_at < clock_timestamp() - interval '1 minute', true) as note_use
      from api_key where hash = any (${hashed.map(({ hash }) => hash)}::bytea[])`)
  if (key?.in_force && key.note_use) {
    await db.rows(
      sql`
        update api_key set hash = ${current.hash}, generation = ${current.generation},
               last_used_at = clock_timestamp(), last_used_from = ${address} where id = ${key.id}`,
    )
  }
  return key
}

/** The valid keys of an account: neither revoked nor expired. */
export function listApiKeys(db: Db, accountId: string): Promise<ApiKey[]> {
  return db.rows(sql`
    select * from api_key where account_id = ${accountId} and ${IS_VALID} order by id`)
}

export function revokeApiKey(tx: Db, accountId: string, id: number): Promise<ApiKey | undefined> {
  return tx.row(sql`
    update api_key set revoked_at = clock_timestamp()
     where id = ${id} and account_id = ${accountId} and revoked_at is null returning *`)
}

/** The number of valid keys per generation of the hash key. */
export function countApiKeys(db: Db): Promise<{ generation: string; count: number }[]> {
  return db.rows(sql`
    select generation, count(*)::int as count from api_key where ${IS_VALID} group by generation`)
}

export async function hasApiKeys(db: Db): Promise<boolean> {
  return (await db.row(sql`select 1 from api_key limit 1`)) !== undefined
}
