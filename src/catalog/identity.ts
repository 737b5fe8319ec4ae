import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A person as an OpenID Connect provider knows him (OpenID Connect Core 1.0, section 5.7). */
export interface Identity {
  readonly id: string
  readonly issuer: string
  readonly subject: string
  readonly person_id: string
  readonly created_at: string
}

/** Stores an identity. Returns undefined when it is of a person already. */
export function insertIdentity(tx: Db, made: Omit<Identity, 'created_at'>): Promise<Identity | undefined> {
  return tx.row(sql`
    insert into person_identity (id, issuer, subject, person_id)
    values (${made.id}, ${made.issuer}, ${made.subject}, ${made.person_id}) on conflict do nothing returning *`)
}

export function findIdentity(db: Db, { issuer, subject }: Pick<Identity, 'issuer' | 'subject'>) {
  return db.row<Identity>(sql`select * from person_identity where issuer = ${issuer} and subject = ${subject}`)
}

export function listIdentities(db: Db, personId: string): Promise<Identity[]> {
  return db.rows(sql`select * from person_identity where person_id = ${personId} order by created_at, id`)
}

export async function deleteIdentity(tx: Db, personId: string, id: string): Promise<boolean> {
  const deleted = await tx.row(sql`
    delete from person_identity where id = ${id} and person_id = ${personId} returning 1`)
  return deleted !== undefined
}
