import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The branches of a project that count against its quota: visible ones, and copies of unfinished restores. */
export async function countAgainstLimit(db: Db, projectId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from branch
     where project_id = ${projectId} and (deleted_at is null or restores is not null)`)
  return row?.count ?? 0
}

/** The number of copies of unfinished restores: each may become as large as its source. */
export async function countCopies(db: Db, projectId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from branch where project_id = ${projectId} and restores is not null`)
  return row?.count ?? 0
}
