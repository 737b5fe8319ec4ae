import type { Db } from './catalog.ts'
import type { MemberRole } from './person.ts'
import { sql } from './sql.ts'

/** A link that lets one person join an organization. The token itself is stored nowhere. */
export interface Invitation {
  readonly id: string
  readonly account_id: string
  readonly role: MemberRole
  /** Of the person it is meant for, as the admin wrote it; empty: not said. */
  readonly email: string
  /** Null for invitations by an API key. */
  readonly invited_by: string | null
  readonly inviter_name: string | null
  readonly created_at: string
  readonly expires_at: string
}

export interface NewInvitation extends Pick<Invitation, 'id' | 'account_id' | 'role' | 'email' | 'expires_at'> {
  readonly invited_by: string | undefined
  readonly hash: Buffer
}

const COLUMNS = sql`i.id, i.account_id, i.role, i.email, i.invited_by, i.created_at, i.expires_at,
  (select name from person p where p.id = i.invited_by) as inviter_name`

export async function insertInvitation(tx: Db, made: NewInvitation): Promise<Invitation> {
  const row = await tx.row<Invitation>(sql`
    insert into invitation as i (id, account_id, hash, role, email, invited_by, expires_at)
    values (${made.id}, ${made.account_id}, ${made.hash}, ${made.role}, ${made.email}, ${made.invited_by},
            ${made.expires_at})
    returning ${COLUMNS}`)
  return row as Invitation
}

/** The invitations of an account that can still be used, the latest first. */
export function listInvitations(db: Db, accountId: string): Promise<Invitation[]> {
  return db.rows(sql`
    select ${COLUMNS} from invitation i where i.account_id = ${accountId} and i.expires_at > clock_timestamp()
     order by i.created_at desc, i.id`)
}

export async function deleteInvitation(tx: Db, accountId: string, id: string): Promise<boolean> {
  return (
    (await tx.row(sql`delete from invitation where id = ${id} and account_id = ${accountId} returning 1`)) !== undefined
  )
}

/** Deletes the invitations of an account that a person made. */
export async function deleteInvitationsBy(tx: Db, accountId: string, personId: string): Promise<void> {
  await tx.rows(sql`delete from invitation where account_id = ${accountId} and invited_by = ${personId}`)
}

/** A valid invitation, by the hash of its token. */
export function findInvitation(db: Db, hash: Buffer): Promise<Invitation | undefined> {
  return db.row(sql`
    select ${COLUMNS} from invitation i where i.hash = ${hash} and i.expires_at > clock_timestamp()`)
}

/** Uses up an invitation. Returns undefined when it is unknown, used, revoked or expired. */
export function takeInvitation(tx: Db, hash: Buffer): Promise<Invitation | undefined> {
  return tx.row(sql`
    delete from invitation i where i.hash = ${hash} and i.expires_at > clock_timestamp() returning ${COLUMNS}`)
}

/** Removes up to `limit` invitations that have expired. Returns how many it removed. */
export async function expireInvitations(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from invitation where id in (
      select id from invitation where expires_at < statement_timestamp() limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
