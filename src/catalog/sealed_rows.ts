import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** An encrypted value and the key of its row. */
export interface SealedRow {
  /** The values of its primary key, in the key's order. */
  readonly at: readonly string[]
  readonly sealed: Buffer
}

/** One column with encrypted values, read in pages in key order. */
export interface SealedColumn {
  readonly what: 'password' | 'webhook' | 'reply'
  page(db: Db, after: readonly string[] | undefined, limit: number): Promise<SealedRow[]>
  /** Replaces an encrypted value, unless it has changed since it was read. */
  replace(db: Db, row: SealedRow, by: Buffer): Promise<void>
}

const PASSWORDS: SealedColumn = {
  what: 'password',
  page: (db, [branch, name] = ['', ''], limit) =>
    db.rows(sql`
      select array[branch_id, name] as at, password as sealed from role
       where (branch_id, name) > (${branch}, ${name}) and password is not null
       order by branch_id, name limit ${limit}`),
  async replace(db, { at: [branch, name], sealed }, by) {
    await db.rows(
      sql`update role set password = ${by} where branch_id = ${branch} and name = ${name} and password = ${sealed}`,
    )
  },
}

const NO_ID = '00000000-0000-0000-0000-000000000000'

const SECRETS: SealedColumn = {
  what: 'webhook',
  page: (db, [id] = [NO_ID], limit) =>
    db.rows(sql`
      select array[id::text] as at, secret as sealed from webhook where id > ${id}::uuid order by id limit ${limit}`),
  async replace(db, { at: [id], sealed }, by) {
    await db.rows(sql`update webhook set secret = ${by} where id = ${id}::uuid and secret = ${sealed}`)
  },
}

const PREVIOUS_SECRETS: SealedColumn = {
  what: 'webhook',
  page: (db, [id] = [NO_ID], limit) =>
    db.rows(sql`
      select array[id::text] as at, previous_secret as sealed from webhook
       where id > ${id}::uuid and previous_secret is not null order by id limit ${limit}`),
  async replace(db, { at: [id], sealed }, by) {
    await db.rows(
      sql`update webhook set previous_secret = ${by} where id = ${id}::uuid and previous_secret = ${sealed}`,
    )
  },
}

const REPLIES: SealedColumn = {
  what: 'reply',
  page: (db, [account, method, path, key] = [NO_ID, '', '', ''], limit) =>
    db.rows(sql`
      select array[account_id::text, method, path, key] as at, reply as sealed from idempotency_key
       where (account_id, method, path, key) > (${account}::uuid, ${method}, ${path}, ${key}) and reply is not null
       order by account_id, method, path, key limit ${limit}`),
  async replace(db, { at: [account, method, path, key], sealed }, by) {
    await db.rows(sql`
      update idempotency_key set reply = ${by}
       where account_id = ${account}::uuid and method = ${method} and path = ${path} and key = ${key}
         and reply = ${sealed}`)
  },
}

/** Whether a value remains from before each kind of text had its own key, as its first byte shows. */
export async function hasFirstSeals(db: Db): Promise<boolean> {
  const row = await db.row<{ has: boolean }>(sql`
    select exists (select from role where get_byte(password, 0) = 1)
           or exists (select from webhook where get_byte(secret, 0) = 1)
           or exists (select from webhook where get_byte(previous_secret, 0) = 1)
           or exists (select from idempotency_key where get_byte(reply, 0) = 1) as has`)
  return row?.has === true
}

/** Every column of the catalog with encrypted values. */
export const SEALED_COLUMNS: readonly SealedColumn[] = [PASSWORDS, SECRETS, PREVIOUS_SECRETS, REPLIES]
