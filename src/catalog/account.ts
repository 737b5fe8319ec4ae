import { newUuid } from '../ids.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

export interface Account {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly plan: 'free' | 'paid'
  readonly created_at: string
}

/** The account of whoever runs this Neap; made on the first call. */
export async function ensureDefaultAccount(db: Db): Promise<Account> {
  await db.rows(sql`
    insert into account (id, name, email, plan, is_default) values (${newUuid()}, 'Owner', 'owner@neap.localhost', 'paid', true)
    on conflict (is_default) where is_default do nothing`)
  return (await db.row<Account>(sql`select * from account where is_default`)) as Account
}

export function findAccount(db: Db, id: string): Promise<Account | undefined> {
  return db.row(sql`select * from account where id = ${id}`)
}
