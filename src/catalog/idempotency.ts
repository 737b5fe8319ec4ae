import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The scope of one Idempotency-Key: account, method and path. */
export interface IdempotencySlot {
  readonly accountId: string
  readonly method: string
  readonly path: string
  readonly key: string
  /** The caller's API key; undefined for sessions and on the administration socket. */
  readonly apiKeyId: number | undefined
  /** The person of the caller's session. */
  readonly personId: string | undefined
}

export interface IdempotentReply {
  /** Of the first caller, null for sessions and the administration socket. */
  readonly api_key_id: number | null
  readonly person_id: string | null
  readonly request_hash: Buffer
  readonly status: number
  readonly reply: Buffer
}

const isAt = ({ accountId, method, path, key }: IdempotencySlot) =>
  sql`account_id = ${accountId} and method = ${method} and path = ${path} and key = ${key}`

/**
 * Inserts the key for the transaction's request. Returns false when another request had it first; waits while that one
 * is uncommitted.
 */
export async function takeSlot(tx: Db, slot: IdempotencySlot, requestHash: Buffer): Promise<boolean> {
  const taken = await tx.row(sql`
    insert into idempotency_key (account_id, method, path, key, request_hash, api_key_id,
                                 person_id)
    values (${slot.accountId}, ${slot.method}, ${slot.path}, ${slot.key}, ${requestHash}, ${slot.apiKeyId},
            ${slot.personId})
    on conflict do nothing returning 1`)
  return taken !== undefined
}

export function findReply(tx: Db, slot: IdempotencySlot): Promise<IdempotentReply | undefined> {
  return tx.row(sql`
    select api_key_id, person_id, request_hash, status, reply from idempotency_key where ${isAt(slot)}`)
}

export async function storeReply(tx: Db, slot: IdempotencySlot, status: number, reply: Buffer): Promise<void> {
  await tx.rows(sql`update idempotency_key set status = ${status}, reply = ${reply} where ${isAt(slot)}`)
}

export async function expireReplies(db: Db, hours: number, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from idempotency_key where (account_id, method, path, key) in (
      select account_id, method, path, key from idempotency_key
       where created_at < statement_timestamp() - make_interval(hours => ${hours})
       order by created_at limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
