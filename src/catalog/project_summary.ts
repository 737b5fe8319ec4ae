import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The content of a project: its branches, the sum of their sizes, and its endpoints by state. */
export interface ProjectSummary {
  readonly branches: number
  readonly logical_bytes: number
  readonly active: number
  readonly idle: number
  /** Disabled, and without a compute. */
  readonly stopped: number
  /** On their way to another state. */
  readonly changing: number
}

/** The summaries of projects by id, in one statement; those without a branch are absent. */
export async function summarizeProjects(db: Db, ids: readonly string[]): Promise<Map<string, ProjectSummary>> {
  const rows = await db.rows<ProjectSummary & { project_id: string }>(sql`
    select b.project_id, count(*)::int as branches, coalesce(sum(b.logical_bytes), 0)::int8 as logical_bytes,
           count(*) filter (where e.current_state = 'active' and e.pending_state is null)::int as active,
           count(*) filter (where e.current_state = 'idle' and e.pending_state is null and not e.disabled)::int as idle,
           count(*) filter (where e.current_state <> 'active' and e.pending_state is null and e.disabled)::int
             as stopped,
           count(e.pending_state)::int as changing
      from branch b left join endpoint e on e.branch_id = b.id and e.deleted_at is null
     where b.project_id = any (${ids}::text[]) and b.deleted_at is null
     group by b.project_id`)
  return new Map(rows.map(({ project_id, ...summary }) => [project_id, summary]))
}
