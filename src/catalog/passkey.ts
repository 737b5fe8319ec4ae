import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

const CHALLENGE_MINUTES = 5
/** Challenges of one network that may wait; the oldest are dropped. */
const MAX_CHALLENGES = 20

export interface Passkey {
  readonly id: string
  readonly person_id: string
  readonly rp_id: string
  /** As the authenticator names it (base64url). */
  readonly credential_id: string
  readonly public_key: Buffer
  readonly counter: number
  readonly transports: readonly string[]
  readonly name: string
  readonly created_at: string
  readonly last_used_at: string | null
}

export type NewPasskey = Omit<Passkey, 'created_at' | 'last_used_at'>

/** Stores a passkey. Returns undefined when it is stored already. */
export function insertPasskey(tx: Db, made: NewPasskey): Promise<Passkey | undefined> {
  return tx.row(sql`
    insert into passkey (id, person_id, rp_id, credential_id, public_key, counter, transports, name)
    values (${made.id}, ${made.person_id}, ${made.rp_id}, ${made.credential_id}, ${made.public_key}, ${made.counter},
            ${made.transports}, ${made.name})
    on conflict do nothing returning *`)
}

export function listPasskeys(db: Db, personId: string): Promise<Passkey[]> {
  return db.rows(sql`select * from passkey where person_id = ${personId} order by created_at, id`)
}

export function findPasskey(db: Db, rpId: string, credentialId: string): Promise<Passkey | undefined> {
  return db.row(sql`select * from passkey where credential_id = ${credentialId} and rp_id = ${rpId}`)
}

/** Records a use. Returns false when the passkey was removed, or used with a later counter, meanwhile. */
export async function usePasskey(tx: Db, { id, counter }: Passkey, newCounter: number): Promise<boolean> {
  const used = await tx.row(sql`
    update passkey set counter = ${newCounter}, last_used_at = clock_timestamp()
     where id = ${id} and counter = ${counter} returning 1`)
  return used !== undefined
}

export function renamePasskey(tx: Db, personId: string, id: string, name: string): Promise<Passkey | undefined> {
  return tx.row(sql`update passkey set name = ${name} where id = ${id} and person_id = ${personId} returning *`)
}

export async function deletePasskey(tx: Db, personId: string, id: string): Promise<boolean> {
  const deleted = await tx.row(sql`delete from passkey where id = ${id} and person_id = ${personId} returning 1`)
  return deleted !== undefined
}

export interface Challenge {
  readonly challenge: string
  /** Undefined: for a sign-in. */
  readonly personId: string | undefined
  readonly rpId: string
  readonly network: string
}

/** Stores a challenge for a few minutes. */
export async function insertChallenge(db: Db, { challenge, personId, rpId, network }: Challenge): Promise<void> {
  await db.rows(sql`
    delete from passkey_challenge where challenge in (
      select challenge from passkey_challenge where network = ${network}
       order by created_at desc offset ${MAX_CHALLENGES - 1})`)
  await db.rows(sql`
    insert into passkey_challenge (challenge, person_id, rp_id, network, expires_at)
    values (${challenge}, ${personId}, ${rpId}, ${network},
            clock_timestamp() + make_interval(mins => ${CHALLENGE_MINUTES}))`)
}

/** Uses up a challenge of this person and host. Returns whether there was one. */
export async function takeChallenge(db: Db, { challenge, personId, rpId }: Omit<Challenge, 'network'>) {
  const taken = await db.row(sql`
    delete from passkey_challenge
     where challenge = ${challenge} and rp_id = ${rpId} and person_id is not distinct from ${personId}
       and expires_at > clock_timestamp()
    returning 1`)
  return taken !== undefined
}

/** Removes up to `limit` challenges that have expired. Returns how many it removed. */
export async function expireChallenges(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from passkey_challenge where challenge in (
      select challenge from passkey_challenge where expires_at < statement_timestamp() limit ${limit}
         for update skip locked)
    returning 1`)
  return rows.length
}
