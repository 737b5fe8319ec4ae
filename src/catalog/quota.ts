import type { Db } from './catalog.ts'
import type { Endpoint } from './endpoint.ts'
import { HAS_GROWN_ON } from './size_limit.ts'
import { sql } from './sql.ts'

/** What a project may use in a calendar month (UTC), and the size that each of its branches may have. */
export type QuotaName =
  | 'active_time_seconds'
  | 'compute_time_seconds'
  | 'written_data_bytes'
  | 'data_transfer_bytes'
  | 'logical_size_bytes'

/** The quotas of projects `p` that are used up, as `x (name)`. */
const EXCEEDED = sql`
  jsonb_each_text(p.settings -> 'quota') q (name, most),
  lateral (select coalesce(sum(active_seconds), 0) as active_seconds,
                  coalesce(sum(compute_seconds), 0) as compute_seconds,
                  coalesce(sum(written_bytes), 0) as written_bytes, coalesce(sum(transfer_bytes), 0) as transfer_bytes
             from consumption c
            where c.project_id = p.id and c.period = 'month'
              and c.since = date_trunc('month', clock_timestamp(), 'UTC')) used,
  lateral (select q.name where q.most::float8 > 0 and q.most::float8 <= case q.name
             when 'active_time_seconds' then used.active_seconds when 'compute_time_seconds' then used.compute_seconds
             when 'written_data_bytes' then used.written_bytes when 'data_transfer_bytes' then used.transfer_bytes end)
    x (name)`

/** A quota that keeps an endpoint from starting: one that its project has used up, or the size of its branch. */
export async function findExceededQuota(
  db: Db,
  { id, project_id }: Pick<Endpoint, 'id' | 'project_id'>,
): Promise<QuotaName | undefined> {
  const row = await db.row<{ name: string }>(sql`
    (select x.name from project p, ${EXCEEDED} where p.id = ${project_id} and p.settings ? 'quota' limit 1)
    union all
    select 'logical_size_bytes' from endpoint e join branch b on b.id = e.branch_id
     where e.id = ${id} and ${HAS_GROWN_ON}
    limit 1`)
  return row?.name as QuotaName | undefined
}

/** The active endpoints of a host whose projects have used a quota up, and that nothing is about to move. */
export function listOverQuota(db: Db, hostId: string): Promise<Endpoint[]> {
  return db.rows(sql`
    select distinct e.* from endpoint e join compute c on c.id = e.compute_id join project p on p.id = e.project_id,
           ${EXCEEDED}
     where c.host_id = ${hostId} and c.ended_at is null and e.pending_state is null and e.deleted_at is null
       and p.settings ? 'quota'`)
}
