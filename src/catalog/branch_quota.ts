import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The branches of a project that count against its quota: those that users see, and the copies that restores under way make. */
export async function countAgainstQuota(db: Db, projectId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from branch where project_id = ${projectId} and (deleted_at is null or restores is not null)`)
  return row?.count ?? 0
}

/** How many copies restores under way make: each may become as large as what it is a copy of. */
export async function countCopies(db: Db, projectId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from branch where project_id = ${projectId} and restores is not null`)
  return row?.count ?? 0
}
