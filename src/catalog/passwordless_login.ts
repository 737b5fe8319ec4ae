import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The channel on which proxies learn that a login was approved or refused; the payload is its id. */
export const PASSWORDLESS_ANSWERS = 'passwordless_login'

/** How long a login waits, as the table says. */
export const PASSWORDLESS_SECONDS = 120
/** Rows are kept while the limits of the last ten minutes count them. */
const KEPT_MINUTES = 15

/** A login without a password that a proxy asks for. */
export interface AskedLogin {
  readonly id: string
  readonly endpointId: string
  readonly role: string
  readonly database: string
  readonly application: string
  /** The client's address, and the network that the limits count it under. */
  readonly address: string
  readonly network: string
  /** Keyed hash of the code. */
  readonly codeHash: Buffer
  /** By this secret alone the answer can be read. */
  readonly secret: Buffer
  /** X25519. */
  readonly publicKey: Buffer
}

/** Records a login that waits for approval, with its audit row. */
export async function askPasswordlessLogin(
  db: Db,
  asked: AskedLogin,
): Promise<'pending' | 'unavailable' | 'too_many' | undefined> {
  const row = await db.row<{ result: 'pending' | 'unavailable' | 'too_many' }>(sql`
    select ask_passwordless_login(${asked.id}, ${asked.endpointId}, ${asked.role}, ${asked.database},
                                  ${asked.application}, ${asked.address}, ${asked.network}, ${asked.codeHash},
                                  ${asked.secret}, ${asked.publicKey}) as result`)
  return row?.result
}

/** The answer to a login that its proxy reads. */
export interface TakenLogin {
  /** Null when the id or the secret is wrong. */
  readonly answer: PasswordlessLogin['status'] | null
  /** The keys of an approved login, sealed to the public key of the proxy. Given once. */
  readonly keys: Buffer | null
}

/** @param givesUp ends a login that still waits */
export function takePasswordlessLogin(
  db: Db,
  { id, secret }: Pick<AskedLogin, 'id' | 'secret'>,
  givesUp: boolean,
): Promise<TakenLogin | undefined> {
  return db.row(sql`select * from take_passwordless_login(${id}, ${secret}, ${givesUp})`)
}

export interface PasswordlessLogin {
  readonly id: string
  readonly account_id: string
  readonly project_id: string
  readonly branch_id: string
  readonly endpoint_id: string
  readonly role_name: string
  readonly database_name: string
  readonly application_name: string
  readonly client_address: string
  readonly public_key: Buffer
  readonly status: 'pending' | 'approved' | 'refused' | 'withdrawn' | 'taken'
  readonly created_at: string
  readonly expires_at: string
}

/** A login, and the names of its project and branch. */
export interface ShownLogin extends PasswordlessLogin {
  readonly project_name: string
  readonly branch_name: string
  /** Whether its time is over. */
  readonly expired: boolean
}

/**
 * The login at an endpoint of this account with a code of one of these hashes.
 * @param locks locks its row until the transaction ends
 */
export function findPasswordlessLogin(
  db: Db,
  accountId: string,
  codeHashes: readonly Buffer[],
  { locks = false } = {},
): Promise<ShownLogin | undefined> {
  return db.row(sql`
    select l.id, l.account_id, l.project_id, l.branch_id, l.endpoint_id, l.role_name, l.database_name,
           l.application_name, l.client_address, l.public_key, l.status, l.created_at, l.expires_at,
           p.name as project_name, b.name as branch_name, l.expires_at <= clock_timestamp() as expired
      from passwordless_login l
      join project p on p.id = l.project_id and p.account_id = l.account_id and p.deleted_at is null
      join branch b on b.id = l.branch_id
     where l.code_hash = any (${codeHashes}::bytea[]) and l.account_id = ${accountId}
     ${locks ? sql`for update of l` : sql``}`)
}

/** The answer of a person to a login that waits. */
export interface LoginAnswer {
  readonly status: 'approved' | 'refused'
  /** Sealed to its public key, when it is approved. */
  readonly sealedKeys?: Buffer
  readonly personId: string | undefined
  readonly apiKeyId: number | undefined
}

/** Records the answer, with an audit row that has the client's address, and tells the proxies. */
export async function answerPasswordlessLogin(
  tx: Db,
  login: PasswordlessLogin,
  { status, sealedKeys, personId, apiKeyId }: LoginAnswer,
): Promise<void> {
  const { id, account_id, project_id, endpoint_id, role_name, client_address } = login
  await tx.rows(sql`
    update passwordless_login set status = ${status}, sealed_keys = ${sealedKeys} where id = ${id}`)
  await tx.rows(sql`
    insert into audit (account_id, api_key_id, person_id, request_id, action, project_id, subject, status, address)
    values (${account_id}, ${apiKeyId}, ${personId}, ${id}, ${`passwordless_login.${status}`}, ${project_id},
            ${`/endpoints/${endpoint_id}/roles/${role_name}`}, 200, ${client_address})`)
  await tx.rows(sql`select pg_notify(${PASSWORDLESS_ANSWERS}, ${id})`)
}

/** Removes up to `limit` logins that have been over for long. Returns how many it removed. */
export async function expirePasswordlessLogins(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from passwordless_login where id in (
      select id from passwordless_login
       where created_at < statement_timestamp() - make_interval(mins => ${KEPT_MINUTES}) limit ${limit}
         for update skip locked)
    returning 1`)
  return rows.length
}
