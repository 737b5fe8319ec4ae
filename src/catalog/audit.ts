import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Who asked for which change, and what came of it. Never a body, a password or a key. */
export interface AuditEntry {
  readonly accountId: string | undefined
  readonly apiKeyId: number | undefined
  readonly requestId: string
  /** The route, as `METHOD /path` with its placeholders. */
  readonly action: string
  readonly projectId: string | undefined
  /** The path as it was asked for. */
  readonly subject: string
  readonly status: number
  readonly address: string
}

export async function insertAudit(tx: Db, entry: AuditEntry): Promise<void> {
  await tx.rows(sql`
    insert into audit (account_id, api_key_id, request_id, action, project_id, subject, status, address)
    values (${entry.accountId}, ${entry.apiKeyId}, ${entry.requestId}, ${entry.action}, ${entry.projectId}, ${entry.subject},
            ${entry.status}, ${entry.address})`)
}
