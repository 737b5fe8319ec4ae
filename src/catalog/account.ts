import { newOrganizationId, newUuid } from '../ids.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

export interface Account {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly plan: 'free' | 'paid'
  readonly organization_id: string
  readonly created_at: string
}

/** The account of the operator of this Neap, with the plan from the settings; created on the first call. */
export async function ensureDefaultAccount(db: Db, plan: Account['plan']): Promise<Account> {
  const row = await db.row<Account>(sql`
    insert into account (id, organization_id, name, email, plan, is_default)
    values (${newUuid()}, ${newOrganizationId()}, 'Owner', 'owner@neap.localhost', ${plan}, true)
    on conflict (is_default) where is_default
    do update set plan = excluded.plan, organization_id = coalesce(account.organization_id, excluded.organization_id)
    returning *`)
  return row as Account
}

export function findDefaultAccount(db: Db): Promise<Account | undefined> {
  return db.row(sql`select * from account where is_default`)
}

export function findAccount(db: Db, id: string): Promise<Account | undefined> {
  return db.row(sql`select * from account where id = ${id}`)
}

/** Locks an account's row. Transactions that check a limit of the account before an insert take this lock first. */
export async function lockAccount(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`select 1 from account where id = ${id} for no key update`)
}
