import type { Db } from './catalog.ts'
import type { Person } from './person.ts'
import { sql } from './sql.ts'

/** Days after its last use, and after its sign-in, at which a session ends. */
const IDLE_DAYS = 7
const SESSION_DAYS = 30

/** Sessions of one person; the least recently used end when there are more. */
const MAX_SESSIONS = 100

export type SignInMethod = 'link' | 'password' | 'invitation' | 'passkey' | 'oidc'

/** A person's stay at the console, from sign-in to sign-out. */
export interface Session {
  readonly id: number
  readonly person_id: string
  /** How the person signed in. */
  readonly method: SignInMethod
  /** As the browser calls itself (RFC 9110, section 10.1.5). */
  readonly user_agent: string
  readonly created_at: string
  readonly last_used_at: string
  readonly last_used_from: string
  readonly expires_at: string
}

export type SessionOfPerson = Session & { readonly person: Person }

const COLUMNS = sql`s.id, s.person_id, s.method, s.user_agent, s.created_at, s.last_used_at, s.last_used_from,
  least(s.expires_at, s.last_used_at + make_interval(days => ${IDLE_DAYS})) as expires_at`

/** Whether the session `s` has neither expired nor been unused for long. */
const IS_VALID = sql`least(s.expires_at, s.last_used_at + make_interval(days => ${IDLE_DAYS})) > clock_timestamp()`

export interface NewSession {
  readonly personId: string
  readonly method: SignInMethod
  readonly hash: Buffer
  readonly userAgent: string
  readonly address: string
}

export async function insertSession(tx: Db, session: NewSession): Promise<Session> {
  await tx.rows(sql`
    delete from person_session where id in (
      select id from person_session where person_id = ${session.personId}
       order by last_used_at desc, id desc offset ${MAX_SESSIONS - 1})`)
  const row = await tx.row<Session>(sql`
    insert into person_session as s (person_id, method, hash, user_agent, last_used_from, expires_at)
    values (${session.personId}, ${session.method}, ${session.hash}, ${session.userAgent}, ${session.address},
            clock_timestamp() + make_interval(days => ${SESSION_DAYS}))
    returning ${COLUMNS}`)
  return row as Session
}

/** The valid session with this hash of its token, and its person. Records the use, at most once a minute. */
export async function useSession(db: Db, hash: Buffer, address: string): Promise<SessionOfPerson | undefined> {
  const session = await db.row<SessionOfPerson & { note_use: boolean }>(sql`
    select ${COLUMNS}, to_jsonb(p) as person, s.last_used_at < clock_timestamp() - interval '1 minute' as note_use
      from person_session s join person p on p.id = s.person_id where s.hash = ${hash} and ${IS_VALID}`)
  if (session?.note_use)
    await db.rows(sql`
      update person_session set last_used_at = clock_timestamp(), last_used_from = ${address} where id = ${session.id}`)
  return session
}

/** The valid sessions of a person, the last used first. */
export function listSessions(db: Db, personId: string): Promise<Session[]> {
  return db.rows(sql`
    select ${COLUMNS} from person_session s where s.person_id = ${personId} and ${IS_VALID}
     order by s.last_used_at desc, s.id desc`)
}

/** Whether a session of a person is valid. Keeps it from being ended until the transaction ends. */
export async function isSessionValid(tx: Db, personId: string, id: number): Promise<boolean> {
  const session = await tx.row(sql`
    select 1 from person_session s where s.id = ${id} and s.person_id = ${personId} and ${IS_VALID} for share`)
  return session !== undefined
}

/** Ends a session of a person. Returns whether there was one. */
export async function endSession(tx: Db, personId: string, id: number): Promise<boolean> {
  const ended = await tx.row(sql`
    delete from person_session where id = ${id} and person_id = ${personId} returning 1`)
  return ended !== undefined
}

/** Ends all sessions of a person but one, and makes his unused sign-in links void. */
export async function endOtherSessions(tx: Db, personId: string, id: number): Promise<void> {
  await tx.rows(sql`delete from person_session where person_id = ${personId} and id <> ${id}`)
  await tx.rows(sql`delete from sign_in_link where person_id = ${personId}`)
}

/** Removes up to `limit` sessions that have expired. Returns how many it removed. */
export async function expireSessions(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from person_session where id in (
      select s.id from person_session s where not (${IS_VALID}) limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}

/** Removes up to `limit` sign-in links that have expired. Returns how many it removed. */
export async function expireSignInLinks(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from sign_in_link where hash in (
      select hash from sign_in_link where expires_at < statement_timestamp() limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}

/** Stores a sign-in link by the hash of its token. Returns when it expires. */
export async function insertSignInLink(tx: Db, personId: string, hash: Buffer, minutes: number): Promise<string> {
  const row = await tx.row<{ expires_at: string }>(sql`
    insert into sign_in_link (hash, person_id, expires_at)
    values (${hash}, ${personId}, clock_timestamp() + make_interval(mins => ${minutes})) returning expires_at`)
  return row?.expires_at ?? ''
}

/** Uses up a sign-in link. Returns its person; undefined when it is unknown, used or expired. */
export function takeSignInLink(tx: Db, hash: Buffer): Promise<Person | undefined> {
  return tx.row(sql`
    with taken as (
      delete from sign_in_link where hash = ${hash} and expires_at > clock_timestamp() returning person_id)
    select p.* from person p join taken on taken.person_id = p.id`)
}
