import { EMAIL_LOCK_CLASS } from './advisory_locks.ts'
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

/** Makes requests that store the same email wait for each other, until the transaction ends. */
const lockEmail = (tx: Db, email: string) =>
  tx.rows(sql`select pg_advisory_xact_lock(${EMAIL_LOCK_CLASS}::int, hashtext(lower(${email})))`)

/** Inserts a person. Returns undefined when another one has the email. */
export async function insertPerson(
  tx: Db,
  { id, name, email }: Pick<Person, 'id' | 'name' | 'email'>,
): Promise<Person | undefined> {
  await lockEmail(tx, email)
  return tx.row(sql`
    insert into person (id, name, email) values (${id}, ${name}, ${email}) on conflict do nothing returning *`)
}

export function findPersonByEmail(db: Db, email: string): Promise<Person | undefined> {
  return db.row(sql`select * from person where lower(email) = lower(${email})`)
}

/** Changes the name or the email of a person. Returns undefined when another person has the email. */
export async function updatePerson(
  tx: Db,
  id: string,
  { name, email }: Partial<Pick<Person, 'name' | 'email'>>,
): Promise<Person | undefined> {
  if (email !== undefined) await lockEmail(tx, email)
  return tx.row(sql`
    update person p set name = coalesce(${name}, p.name), email = coalesce(${email}, p.email)
     where id = ${id} and not exists (
       select from person o where o.id <> p.id and lower(o.email) = lower(${email}))
    returning *`)
}

/** A person with the hash of his password, if he has one. */
export interface PersonWithPassword {
  readonly person: Person
  readonly hash: string | null
}

export function findPasswordByEmail(db: Db, email: string): Promise<PersonWithPassword | undefined> {
  return db.row(sql`
    select to_jsonb(p) as person, w.hash from person p left join person_password w on w.person_id = p.id
     where lower(p.email) = lower(${email})`)
}

export interface StoredPassword {
  readonly hash: string
  readonly changed_at: string
}

export function findPassword(db: Db, personId: string): Promise<StoredPassword | undefined> {
  return db.row(sql`select hash, changed_at from person_password where person_id = ${personId}`)
}

/** Locks the password of a person until the transaction ends. Returns whether its hash is still this one. */
export async function isPasswordStill(tx: Db, personId: string, hash: string): Promise<boolean> {
  return (
    (await tx.row(sql`
      select 1 from person_password where person_id = ${personId} and hash = ${hash} for share`)) !== undefined
  )
}

/** Stores the hash of a password, if that before is still `before`. Returns whether it was. */
export async function setPassword(
  tx: Db,
  personId: string,
  hash: string,
  before: string | undefined,
): Promise<boolean> {
  const set =
    before === undefined
      ? sql`insert into person_password (person_id, hash) values (${personId}, ${hash})
            on conflict do nothing returning 1`
      : sql`update person_password set hash = ${hash}, changed_at = clock_timestamp()
             where person_id = ${personId} and hash = ${before} returning 1`
  return (await tx.row(set)) !== undefined
}
