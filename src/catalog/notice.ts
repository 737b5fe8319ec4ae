import { NOTICES_LOCK } from './advisory_locks.ts'
import type { Catalog, Db } from './catalog.ts'
import { USE_OF_QUOTA } from './quota.ts'
import { sql } from './sql.ts'

/** How far a limit is used: a host's disk, a branch's size, or a quota of a project or an account for this month. */
export interface Notice {
  readonly id: string
  /** `host_disk`, or the name of a quota. */
  readonly name: string
  /** The host, branch, project or account. */
  readonly subject_id: string
  readonly account_id: string | null
  readonly project_id: string | null
  /** In percent: the highest of LEVELS that was reached. */
  readonly level: number
  readonly used: number
  readonly most: number
  /** When it will be used up if use goes on as in the last day; null when it will not, or that is unknown. */
  readonly full_at: string | null
  readonly noticed_at: string
}

const LEVELS = [60, 75, 85, 90, 95, 100]
/** A notice remains until use is this much below its level, in percent. */
const RELIEF = 2

/** A rate of less than some minutes says nothing of the next days. */
const LEAST_SECONDS = 600

/** The disk of a host and the room by which it may grow, with its growth per second since yesterday's first figure. */
const hostDisk = (hostId: string) => sql`
  select 'host_disk' as name, h.id as subject_id, h.id as host_id, null::uuid as account_id, null::text as project_id,
         (h.disk_bytes - h.disk_free_bytes)::float8 as used, (h.disk_bytes + h.growable_bytes)::float8 as most,
         (select (h.disk_bytes - h.disk_free_bytes - d.used_bytes)
                 / nullif(extract(epoch from clock_timestamp() - d.at), 0)
            from host_disk d
           where d.host_id = h.id and d.at between clock_timestamp() - interval '1 day'
                                           and clock_timestamp() - make_interval(secs => ${LEAST_SECONDS})
           order by d.at limit 1)::float8 as rate,
         null::timestamptz as ends_at
    from host h where h.id = ${hostId} and h.disk_bytes > 0`

/** The sizes of limited branches on a host. Their growth is that of all their files. */
const branchSizes = (hostId: string) => sql`
  select 'logical_size_bytes', b.id, s.host_id, b.account_id, b.project_id, b.logical_bytes::float8, l.most,
         (select (s.bytes - z.bytes) / nullif(extract(epoch from clock_timestamp() - z.since), 0)
            from storage_size z
           where z.project_id = b.project_id and z.branch_id = b.id
             and z.since between clock_timestamp() - interval '1 day'
                             and clock_timestamp() - make_interval(secs => ${LEAST_SECONDS})
           order by z.since limit 1)::float8,
         null::timestamptz
    from project p join branch b on b.project_id = p.id join store s on s.id = b.store_id,
         lateral (select (p.settings -> 'quota' ->> 'logical_size_bytes')::float8) l (most)
   where p.settings ? 'quota' and p.deleted_at is null and b.deleted_at is null and s.host_id = ${hostId} and l.most > 0
     and b.logical_bytes is not null`

const USED = sql`coalesce(sum(${USE_OF_QUOTA}), 0)::float8`

/** The quotas of projects for this month, with the use per second of the last day. */
const monthQuotas = sql`
  select q.name, p.id, null::text, p.account_id, p.id, u.used, q.most::float8,
         (d.used / least(86400, extract(epoch from clock_timestamp() - m.month)))::float8, m.month + interval '1 month'
    from project p,
         lateral (select date_trunc('month', clock_timestamp(), 'UTC')) m (month),
         lateral jsonb_each_text(p.settings -> 'quota') q (name, most),
         lateral (select ${USED} from consumption u
                   where u.project_id = p.id and u.period = 'month' and u.since = m.month) u (used),
         lateral (select ${USED} from consumption u
                   where u.project_id = p.id and u.period = 'hour' and u.since > clock_timestamp() - interval '1 day'
                     and u.since >= m.month) d (used)
   where p.settings ? 'quota' and p.deleted_at is null and q.name <> 'logical_size_bytes' and q.most::float8 > 0`

/** The quotas of accounts for this month, as those of projects. */
const accountQuotas = sql`
  select q.name, a.id::text, null::text, a.id, null::text, u.used, q.most::float8,
         (d.used / least(86400, extract(epoch from clock_timestamp() - m.month)))::float8, m.month + interval '1 month'
    from account a,
         lateral (select date_trunc('month', clock_timestamp(), 'UTC')) m (month),
         lateral jsonb_each_text(a.quota) q (name, most),
         lateral (select ${USED} from consumption u join project p on p.id = u.project_id
                   where p.account_id = a.id and u.period = 'month' and u.since = m.month) u (used),
         lateral (select ${USED} from consumption u join project p on p.id = u.project_id
                   where p.account_id = a.id and u.period = 'hour' and u.since > clock_timestamp() - interval '1 day'
                     and u.since >= m.month) d (used)
   where a.quota <> '{}' and q.most::float8 > 0`

/**
 * Writes the notices of a host's disk, its branches and of all quotas anew, and tells webhooks of each level
 * that was reached since. Returns those.
 */
export async function renewNotices(catalog: Catalog, hostId: string): Promise<Notice[]> {
  return catalog.transaction(async (tx) => {
    // Of several workers each level is told by one: the others see it as told.
    await tx.rows(sql`select pg_advisory_xact_lock(${NOTICES_LOCK}::bigint)`)
    return renew(tx, hostId)
  })
}

function renew(tx: Db, hostId: string): Promise<Notice[]> {
  return tx.rows(sql`
    with reading as (${hostDisk(hostId)} union all ${branchSizes(hostId)}
                     union all ${monthQuotas} union all ${accountQuotas}),
    leveled as (
      select r.*, o.level as before,
             (select max(l) from unnest(${LEVELS}::int[]) l
               where r.used >= r.most * (l - case when l <= o.level then ${RELIEF}::int else 0 end) / 100) as level,
             case when r.rate > 0 and r.used < r.most
                       and (r.most - r.used) / r.rate < 31536000
                  then clock_timestamp() + make_interval(secs => (r.most - r.used) / r.rate) end as full_at
        from reading r left join notice o on o.name = r.name and o.subject_id = r.subject_id),
    gone as (
      delete from notice n
       where (n.host_id = ${hostId} or n.host_id is null)
         and not exists (select from leveled l
                          where l.name = n.name and l.subject_id = n.subject_id and l.level is not null)),
    renewed as (
      insert into notice as n (name, subject_id, host_id, account_id, project_id, level, used, most, full_at)
      select name, subject_id, host_id, account_id, project_id, level, used, most,
             case when ends_at is null or full_at < ends_at then full_at end
        from leveled where level is not null
      on conflict (name, subject_id) do update
        set level = excluded.level, used = excluded.used, most = excluded.most, full_at = excluded.full_at,
            noticed_at = case when excluded.level > n.level then excluded.noticed_at else n.noticed_at end
      returning n.*),
    raised as (
      select n.* from renewed n join leveled l on l.name = n.name and l.subject_id = n.subject_id
       where n.level > coalesce(l.before, 0)),
    told as (
      select tell_webhooks(coalesce(r.account_id, a.id), r.project_id, '{notice.raised}',
                           to_jsonb(r) - 'account_id' - 'host_id')
        from raised r join account a on a.is_default)
    select id, name, subject_id, account_id, project_id, level, used, most, full_at, noticed_at
      from raised, (select count(*) from told) t`)
}

/** The notices of an account, or of one of its projects; with those of hosts for their administrator. */
export function listNotices(
  db: Db,
  of: { readonly accountId: string; readonly projectId: string | null; readonly withHosts: boolean },
): Promise<Notice[]> {
  return db.rows(sql`
    select id, name, subject_id, account_id, project_id, level, used, most, full_at, noticed_at
      from notice
     where account_id = ${of.accountId} and (${of.projectId}::text is null or project_id = ${of.projectId})
        or account_id is null and ${of.withHosts}::bool
     order by level desc, noticed_at desc, id`)
}

const KEPT_DAYS = 7

/** Keeps the used bytes of a host's disk for forecasts, once an hour. */
export async function keepDiskHistory(db: Db, hostId: string): Promise<void> {
  await db.rows(sql`
    insert into host_disk (host_id, used_bytes)
    select id, disk_bytes - disk_free_bytes from host h
     where id = ${hostId} and disk_bytes > 0
       and not exists (select from host_disk d
                        where d.host_id = h.id and d.at > clock_timestamp() - interval '1 hour')`)
  await db.rows(sql`
    delete from host_disk
     where host_id = ${hostId} and at < statement_timestamp() - make_interval(days => ${KEPT_DAYS})`)
}
