import type { Db } from './catalog.ts'
import { sql, type SqlStatement } from './sql.ts'

/** A requested change, its caller and its outcome. Never contains a body, a password or a key. */
export interface AuditEntry {
  readonly accountId: string | undefined
  readonly apiKeyId: number | undefined
  readonly personId: string | undefined
  readonly requestId: string
  /** The route, as `METHOD /path` with its placeholders. */
  readonly action: string
  readonly projectId: string | undefined
  /** The requested path. */
  readonly subject: string
  readonly status: number
  readonly address: string
}

export async function insertAudit(tx: Db, entry: AuditEntry): Promise<void> {
  await tx.rows(auditRow(entry))
}

/** The statement that does so. */
export const auditRow = (entry: AuditEntry): SqlStatement => sql`
    insert into audit (account_id, api_key_id, person_id, request_id, action, project_id, subject, status, address)
    values (${entry.accountId}, ${entry.apiKeyId}, ${entry.personId}, ${entry.requestId}, ${entry.action},
            ${entry.projectId}, ${entry.subject}, ${entry.status}, ${entry.address})`

/** Inserts the audit rows of a person's own affair: one for each organization of which he is a member. */
export async function insertPersonAudit(tx: Db, entry: AuditEntry): Promise<void> {
  await tx.rows(personAuditRows(entry))
}

/** The statement that does so. */
export const personAuditRows = (entry: AuditEntry): SqlStatement => sql`
    insert into audit (account_id, person_id, request_id, action, subject, status, address)
    select m.account_id, ${entry.personId}, ${entry.requestId}, ${entry.action}, ${entry.subject}, ${entry.status},
           ${entry.address}
      from membership m where m.person_id = ${entry.personId} order by m.account_id`

export interface AuditRow {
  readonly id: number
  readonly created_at: string
  readonly request_id: string
  readonly action: string
  readonly subject: string
  readonly status: number
  readonly project_id: string | null
  readonly api_key_id: number | null
  readonly person_id: string | null
  /** The name and email of that person now; null: of no session, or the person is no more. */
  readonly person: { readonly name: string; readonly email: string } | null
  readonly address: string
}

export interface AuditFilter {
  readonly projectId?: string | undefined
  readonly apiKeyId?: number | undefined
  readonly personId?: string | undefined
  readonly action?: string | undefined
  /** Moments: not before the one, before the other. */
  readonly from?: string | undefined
  readonly to?: string | undefined
}

/** A page of an account's audit rows, newest first: those before the id `before`. */
export function listAudit(
  db: Db,
  accountId: string,
  limit: number,
  before: number | undefined,
  { projectId, apiKeyId, personId, action, from, to }: AuditFilter,
): Promise<AuditRow[]> {
  return db.rows(sql`
    select a.*, case when p.id is not null then jsonb_build_object('name', p.name, 'email', p.email) end as person
      from (select id, created_at, request_id, action, subject, status, project_id, api_key_id, person_id, address
              from audit
             where account_id = ${accountId}
               and (${projectId}::text is null or project_id = ${projectId})
               and (${apiKeyId}::bigint is null or api_key_id = ${apiKeyId})
               and (${personId}::uuid is null or person_id = ${personId})
               and (${action}::text is null or action = ${action})
               and (${from}::timestamptz is null or created_at >= ${from})
               and (${to}::timestamptz is null or created_at < ${to})
               and id >= case when ${from}::timestamptz is null then 0 else ${firstSince(accountId, from, -1)} end
               and id < case when ${to}::timestamptz is null then 9223372036854775807
                             else ${firstSince(accountId, to, 1)} end
               and id < coalesce(${before}::bigint, 9223372036854775807)
             order by id desc limit ${limit}) a left join person p on p.id = a.person_id
     order by a.id desc`)
}

/**
 * The least id of the rows since a moment, at its other side by a minute: concurrent requests take their ids and their
 * moments in no common order, so that the moment itself decides.
 */
const firstSince = (accountId: string, moment: string | undefined, minutes: number) => sql`
  coalesce((select id from audit
             where account_id = ${accountId}
               and created_at >= ${moment}::timestamptz + make_interval(mins => ${minutes})
             order by created_at limit 1), 9223372036854775807)`

/**
 * Removes up to `limit` rows that are at least `days` old, the oldest first. Returns how many it removed. Ids ascend
 * with time, so only the first ones are read.
 */
export async function expireAudit(db: Db, days: number, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from audit where id in (
      select id from (select id, created_at from audit order by id limit ${limit}) oldest
       where created_at < statement_timestamp() - make_interval(days => ${days}))
    returning 1`)
  return rows.length
}
