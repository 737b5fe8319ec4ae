import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

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
  await tx.rows(sql`
    insert into audit (account_id, api_key_id, person_id, request_id, action, project_id, subject, status, address)
    values (${entry.accountId}, ${entry.apiKeyId}, ${entry.personId}, ${entry.requestId}, ${entry.action},
            ${entry.projectId}, ${entry.subject}, ${entry.status}, ${entry.address})`)
}

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
  readonly address: string
}

/** A page of an account's audit rows, newest first: those before the id `before`. */
export function listAudit(
  db: Db,
  accountId: string,
  limit: number,
  before: number | undefined,
  projectId: string | undefined,
): Promise<AuditRow[]> {
  const ofProject = projectId === undefined ? sql`` : sql`and project_id = ${projectId}`
  return db.rows(sql`
    select id, created_at, request_id, action, subject, status, project_id, api_key_id, person_id, address from audit
     where account_id = ${accountId} ${ofProject} and id < coalesce(${before}::bigint, 9223372036854775807)
     order by id desc limit ${limit}`)
}
