import type { Account } from './account.ts'
import type { Scope } from './api_key.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A person who signs in at the console. */
export interface Person {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly created_at: string
}

export type MemberRole = 'admin' | 'editor' | 'viewer'

/** The scope that a member's sessions have in the account. */
export const SCOPE_OF: Readonly<Record<MemberRole, Scope>> = { admin: 'admin', editor: 'write', viewer: 'read' }

/** An account of which a person is a member. */
export type MemberAccount = Account & { readonly role: MemberRole }

/** The accounts of which a person is a member, the one joined first first. */
export function listAccountsOf(db: Db, personId: string): Promise<MemberAccount[]> {
  return db.rows(sql`
    select a.*, m.role from membership m join account a on a.id = m.account_id
     where m.person_id = ${personId} order by m.joined_at, a.id`)
}
