import { newOrganizationId, newUuid } from '../ids.ts'
import type { Db } from './catalog.ts'
import type { MemberRole } from './person.ts'
import type { MonthlyQuota } from './quota.ts'
import { sql } from './sql.ts'

export interface Account {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly plan: 'free' | 'paid'
  readonly organization_id: string
  /** The organization of the operator of this Neap: its admins have more rights than others. */
  readonly is_default: boolean
  /** Null: those of the settings of this Neap. */
  readonly own_plan: Account['plan'] | null
  readonly projects_limit: number | null
  readonly branches_limit: number | null
  /** What all its projects may use in a calendar month (UTC); 0 or absent: no limit. */
  readonly quota: Partial<Record<MonthlyQuota, number>>
  /** A quota of those that is used up. */
  readonly quota_exceeded: MonthlyQuota | null
  readonly created_at: string
}

/**
 * The account of the operator of this Neap, with the plan from the settings or its own; created on the first call, with
 * its first member.
 */
export async function ensureDefaultAccount(db: Db, plan: Account['plan']): Promise<Account> {
  const row = await db.row<Account>(sql`
    insert into account (id, organization_id, name, email, plan, is_default)
    values (${newUuid()}, ${newOrganizationId()}, 'Owner', 'owner@neap.localhost', ${plan}, true)
    on conflict (is_default) where is_default
    do update set plan = coalesce(account.own_plan, excluded.plan),
                  organization_id = coalesce(account.organization_id, excluded.organization_id)
    returning *`)
  const account = row as Account
  await addFirstMember(db, account)
  return account
}

/** Makes the first member of an account: a person with the account's id, name and email. Repeatable. */
async function addFirstMember(db: Db, { id, name, email }: Account): Promise<void> {
  await db.rows(sql`
    with made as (
      insert into person (id, name, email) values (${id}, ${name}, ${email}) on conflict do nothing returning id)
    insert into membership (account_id, person_id, role) select id, id, 'admin' from made on conflict do nothing`)
}

export interface NewAccount extends Pick<Account, 'id' | 'organization_id' | 'name' | 'email' | 'plan'> {
  /** The person that creates it, and becomes its first admin. */
  readonly creatorId: string
}

export async function insertAccount(tx: Db, account: NewAccount): Promise<Account> {
  const { id, organization_id, name, email, plan, creatorId } = account
  const row = await tx.row<Account>(sql`
    insert into account (id, organization_id, name, email, plan, created_by)
    values (${id}, ${organization_id}, ${name}, ${email}, ${plan}, ${creatorId}) returning *`)
  return row as Account
}

export async function renameAccount(tx: Db, id: string, name: string): Promise<void> {
  await tx.rows(sql`update account set name = ${name} where id = ${id}`)
}

/** The number of organizations that a person has created. */
export async function countCreatedAccounts(db: Db, personId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from account where created_by = ${personId}`)
  return row?.count ?? 0
}

export function findAccountOfOrganization(db: Db, organizationId: string): Promise<Account | undefined> {
  return db.row(sql`select * from account where organization_id = ${organizationId}`)
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

/** The limits of an account that a request may change. Null returns to the settings of this Neap. */
export type AccountLimits = Partial<Pick<Account, 'own_plan' | 'projects_limit' | 'branches_limit' | 'quota'>>

/** Changes the given limits of an account. `plan` is that of the settings. */
export async function updateAccount(
  tx: Db,
  before: Account,
  changes: AccountLimits,
  plan: Account['plan'],
): Promise<void> {
  const { own_plan, projects_limit, branches_limit, quota } = { ...before, ...changes }
  await tx.rows(sql`
    update account set own_plan = ${own_plan}, plan = ${own_plan ?? plan}, projects_limit = ${projects_limit},
           branches_limit = ${branches_limit}, quota = ${JSON.stringify(quota)}
     where id = ${before.id}`)
}

/** An account of which a person is a member. */
export type MemberAccount = Account & { readonly role: MemberRole }

/** The accounts of which a person is a member, the one joined first first. */
export function listAccountsOf(db: Db, personId: string): Promise<MemberAccount[]> {
  return db.rows(sql`
    select a.*, m.role from membership m join account a on a.id = m.account_id
     where m.person_id = ${personId} order by m.joined_at, a.id`)
}
