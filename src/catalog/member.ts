import type { Db } from './catalog.ts'
import type { MemberRole, Person } from './person.ts'
import { sql } from './sql.ts'

/** A person in an organization. */
export interface Member {
  readonly role: MemberRole
  readonly joined_at: string
  readonly person: Person
}

/** The members of an account, in the order in which they joined. */
export function listMembers(db: Db, accountId: string): Promise<Member[]> {
  return db.rows(sql`
    select m.role, m.joined_at, to_jsonb(p) as person from membership m join person p on p.id = m.person_id
     where m.account_id = ${accountId} order by m.joined_at, p.id`)
}

export function findMember(db: Db, accountId: string, personId: string): Promise<Member | undefined> {
  return db.row(sql`
    select m.role, m.joined_at, to_jsonb(p) as person from membership m join person p on p.id = m.person_id
     where m.account_id = ${accountId} and m.person_id = ${personId}`)
}

/** Adds a member. Returns false when the person is one already. */
export async function insertMember(tx: Db, accountId: string, personId: string, role: MemberRole): Promise<boolean> {
  const added = await tx.row(sql`
    insert into membership (account_id, person_id, role) values (${accountId}, ${personId}, ${role})
    on conflict do nothing returning 1`)
  return added !== undefined
}

export async function updateMemberRole(tx: Db, accountId: string, personId: string, role: MemberRole): Promise<void> {
  await tx.rows(sql`
    update membership set role = ${role} where account_id = ${accountId} and person_id = ${personId}`)
}

export async function deleteMember(tx: Db, accountId: string, personId: string): Promise<void> {
  await tx.rows(sql`delete from membership where account_id = ${accountId} and person_id = ${personId}`)
}

/** Whether an account has an admin besides this person. */
export async function hasOtherAdmin(db: Db, accountId: string, personId: string): Promise<boolean> {
  return (
    (await db.row(sql`
      select 1 from membership
       where account_id = ${accountId} and role = 'admin' and person_id <> ${personId} limit 1`)) !== undefined
  )
}

/** The number of members of an account, and of organizations of which a person is a member. */
export async function countMembers(db: Db, accountId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from membership where account_id = ${accountId}`)
  return row?.count ?? 0
}

export async function countMemberships(db: Db, personId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from membership where person_id = ${personId}`)
  return row?.count ?? 0
}
