import type { Db } from './catalog.ts'
import type { Endpoint } from './endpoint.ts'
import { HAS_GROWN_ON } from './size_limit.ts'
import { sql } from './sql.ts'

/** What a project, or all projects of an account, may use in a calendar month (UTC). */
export const MONTHLY_QUOTAS = [
  'active_time_seconds',
  'compute_time_seconds',
  'written_data_bytes',
  'data_transfer_bytes',
] as const
export type MonthlyQuota = (typeof MONTHLY_QUOTAS)[number]

/** A quota that keeps an endpoint from starting. */
export interface ExceededQuota {
  readonly of: 'account' | 'project' | 'branch' | 'host'
  readonly name: MonthlyQuota | 'logical_size_bytes'
}

/** The use of a monthly quota `q (name)` by a row `u` with counts of consumption. */
export const USE_OF_QUOTA = sql`
  case q.name when 'active_time_seconds' then u.active_seconds when 'compute_time_seconds' then u.compute_seconds
              when 'written_data_bytes' then u.written_bytes when 'data_transfer_bytes' then u.transfer_bytes end`

/** The quotas of projects `p` that are used up, as `x (name)`. */
const EXCEEDED = sql`
  jsonb_each_text(p.settings -> 'quota') q (name, most),
  lateral (select coalesce(sum(active_seconds), 0) as active_seconds,
                  coalesce(sum(compute_seconds), 0) as compute_seconds,
                  coalesce(sum(written_bytes), 0) as written_bytes, coalesce(sum(transfer_bytes), 0) as transfer_bytes
             from consumption c
            where c.project_id = p.id and c.period = 'month'
              and c.since = date_trunc('month', clock_timestamp(), 'UTC')) u,
  lateral (select q.name where q.most::float8 > 0 and q.most::float8 <= ${USE_OF_QUOTA}) x (name)`

/** A quota that its account or project has used up, or the size of its branch. */
export async function findExceededQuota(
  db: Db,
  { id, project_id }: Pick<Endpoint, 'id' | 'project_id'>,
): Promise<ExceededQuota | undefined> {
  const row = await db.row<{ of: string; name: string }>(sql`
    (select 'project' as of, x.name from project p, ${EXCEEDED}
      where p.id = ${project_id} and p.settings ? 'quota' limit 1)
    union all
    select 'account', a.quota_exceeded from project p join account a on a.id = p.account_id
     where p.id = ${project_id} and a.quota_exceeded is not null
    union all
    select case e.writes_refused when 'host_disk' then 'host' else 'branch' end, 'logical_size_bytes'
      from endpoint e join branch b on b.id = e.branch_id
     where e.id = ${id} and ${HAS_GROWN_ON}
    limit 1`)
  return row as ExceededQuota | undefined
}

/** The active endpoints of a host whose accounts or projects have used a quota up, without a pending state. */
export function listOverQuota(db: Db, hostId: string): Promise<Endpoint[]> {
  const running = sql`
    c.host_id = ${hostId} and c.ended_at is null and e.pending_state is null and e.deleted_at is null`
  return db.rows(sql`
    select e.* from endpoint e join compute c on c.id = e.compute_id join project p on p.id = e.project_id, ${EXCEEDED}
     where ${running} and p.settings ? 'quota'
    union
    select e.* from endpoint e join compute c on c.id = e.compute_id join account a on a.id = e.account_id
     where ${running} and a.quota_exceeded is not null`)
}

/** Finds the quotas of accounts that are used up this month, for starts to read; of one account, or of all. */
export async function renewAccountQuotas(db: Db, accountId?: string): Promise<void> {
  await db.rows(sql`
    with used as (
      select a.id, sum(c.active_seconds) as active_seconds, sum(c.compute_seconds) as compute_seconds,
             sum(c.written_bytes) as written_bytes, sum(c.transfer_bytes) as transfer_bytes
        from account a join project p on p.account_id = a.id
        join consumption c on c.project_id = p.id and c.period = 'month'
                              and c.since = date_trunc('month', clock_timestamp(), 'UTC')
       where a.quota <> '{}' and (${accountId}::uuid is null or a.id = ${accountId}::uuid) group by a.id)
    update account a
       set quota_exceeded = x.name
      from account b left join used u on u.id = b.id,
           lateral (select min(q.name) as name from jsonb_each_text(b.quota) q (name, most)
                     where q.most::float8 > 0 and q.most::float8 <= ${USE_OF_QUOTA}) x
     where b.id = a.id and (${accountId}::uuid is null or a.id = ${accountId}::uuid)
       and a.quota_exceeded is distinct from x.name`)
}

/** What the projects of an account have used this month. */
export async function accountUse(db: Db, accountId: string): Promise<Record<MonthlyQuota, number>> {
  const row = await db.row<Record<MonthlyQuota, number>>(sql`
    select coalesce(sum(active_seconds), 0) as active_time_seconds,
           coalesce(sum(compute_seconds), 0) as compute_time_seconds,
           coalesce(sum(written_bytes), 0)::int8 as written_data_bytes,
           coalesce(sum(transfer_bytes), 0)::int8 as data_transfer_bytes
      from consumption c join project p on p.id = c.project_id
     where p.account_id = ${accountId} and c.period = 'month'
       and c.since = date_trunc('month', clock_timestamp(), 'UTC')`)
  return row as Record<MonthlyQuota, number>
}
