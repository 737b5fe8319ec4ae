import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** What a branch or a project has used. */
export interface Consumed {
  /** CU times seconds for which its computes ran. */
  readonly compute_seconds: number
  readonly active_seconds: number
  /** WAL. */
  readonly written_bytes: number
  /** Bytes sent to clients. */
  readonly transfer_bytes: number
}

export const NO_USE: Consumed = { compute_seconds: 0, active_seconds: 0, written_bytes: 0, transfer_bytes: 0 }

/** Hours are kept for days of the last two months, months for the last year. */
const KEPT_HOUR_DAYS = 62
const KEPT_MONTHS = 13

const SUMS = sql`
  coalesce(sum(compute_seconds), 0) as compute_seconds, coalesce(sum(active_seconds), 0) as active_seconds,
  coalesce(sum(written_bytes), 0)::int8 as written_bytes, coalesce(sum(transfer_bytes), 0)::int8 as transfer_bytes`

const THIS_MONTH = sql`period = 'month' and since = date_trunc('month', clock_timestamp(), 'UTC')`

/** What projects have used this month, with their deleted branches, by id; those that used nothing are absent. */
export async function projectUses(db: Db, projectIds: readonly string[]): Promise<Map<string, Consumed>> {
  const rows = await db.rows<Consumed & { project_id: string }>(sql`
    select project_id, ${SUMS} from consumption
     where project_id = any (${projectIds}::text[]) and ${THIS_MONTH} group by project_id`)
  return new Map(rows.map(({ project_id, ...use }) => [project_id, use]))
}

/** The same per branch of a project, or for the given branch. */
export async function branchUses(db: Db, projectId: string, branchId?: string): Promise<Map<string, Consumed>> {
  const rows = await db.rows<Consumed & { branch_id: string }>(sql`
    select branch_id, ${SUMS} from consumption
     where project_id = ${projectId} and ${THIS_MONTH} and (${branchId}::text is null or branch_id = ${branchId})
     group by branch_id`)
  return new Map(rows.map(({ branch_id, ...use }) => [branch_id, use]))
}

/** Bytes of a project's files times hours, this month. */
export async function projectByteHours(db: Db, projectId: string): Promise<number> {
  const row = await db.row<{ byte_hours: number }>(sql`
    select coalesce(sum(bytes * extract(epoch from upto - greatest(since, month)) / 3600), 0)::float8 as byte_hours
      from (select month, bytes, since,
                   coalesce(lead(since) over (partition by branch_id order by since), clock_timestamp()) as upto
              from date_trunc('month', clock_timestamp(), 'UTC') month, storage_sizes(array[${projectId}], month)) size
     where upto > month`)
  return row?.byte_hours ?? 0
}

/**
 * Counts the running computes of a host up to now. Those that a step has locked are left for the next time: a tenant
 * could make one last, and all others would wait for it.
 * @param skips leaves out the time since they were last counted: the machine slept
 */
export async function meterComputes(db: Db, hostId: string, skips: boolean): Promise<void> {
  await db.rows(sql`select meter_computes(${hostId}, ${skips})`)
}

/** Counts the WAL of stores up to these positions, by store id, as Postgres writes them ("0/3000028"). */
export async function countWal(db: Db, positions: ReadonlyMap<string, string>): Promise<void> {
  if (positions.size === 0) return
  await db.rows(sql`select count_wal(${[...positions.keys()]}, ${[...positions.values()]}::pg_lsn[])`)
}

export type Granularity = 'hourly' | 'daily' | 'monthly'

/** The use of a branch, or of all branches of a project, in one part of the time that was asked for. */
export interface UseInTime {
  readonly project_id: string
  readonly branch_id: string | null
  readonly since: string
  readonly compute_seconds: number
  readonly transfer_bytes: number
  /** Bytes of files times hours, of branches without and with a parent. */
  readonly root_byte_hours: number
  readonly child_byte_hours: number
  /** The same of their histories, and of snapshots, which belong to no branch. */
  readonly history_byte_hours: number
  readonly snapshot_byte_hours: number
  /** Branches over the number that is included, times hours; 0 for a branch. */
  readonly extra_branch_hours: number
}

export interface UseRange {
  readonly projectIds: readonly string[]
  /** Only these; undefined: all. */
  readonly branchIds?: readonly string[] | undefined
  /** RFC 3339. */
  readonly from: string
  readonly to: string
  readonly granularity: Granularity
  /** Whether each branch is apart. */
  readonly byBranch: boolean
  /** Branches of a project that are no extra ones. */
  readonly includedBranches: number
}

const UNITS = { hourly: 'hour', daily: 'day', monthly: 'month' } as const

/**
 * The use of projects in hours, days or months (UTC), oldest first; those without any use are absent. Whole units
 * count, from the one with `from` to the one before `to`.
 */
export function listUses(db: Db, range: UseRange): Promise<UseInTime[]> {
  const { projectIds, branchIds, from, to, byBranch, includedBranches } = range
  const unit = UNITS[range.granularity]
  const kept = unit === 'month' ? 'month' : 'hour'
  return db.rows(sql`
    with bucket as (
      select since, since + ('1 ' || ${unit})::interval as upto
        from generate_series(date_trunc(${unit}, ${from}::timestamptz, 'UTC') at time zone 'UTC',
                             (${to}::timestamptz - interval '1 microsecond') at time zone 'UTC',
                             ('1 ' || ${unit})::interval) at_utc,
             lateral (select at_utc at time zone 'UTC') b (since)),
    used as (
      select c.project_id, case when ${byBranch}::bool then c.branch_id end as branch_id, b.since,
             sum(c.compute_seconds) as compute_seconds, sum(c.transfer_bytes) as transfer_bytes
        from bucket b join consumption c on c.period = ${kept} and c.since >= b.since and c.since < b.upto
       where c.project_id = any (${projectIds}::text[])
         and (${branchIds}::text[] is null or c.branch_id = any (${branchIds}::text[]))
       group by 1, 2, 3),
    size as (
      select project_id, branch_id, is_root, is_snapshot, bytes, history_bytes, since,
             coalesce(lead(since) over (partition by project_id, branch_id order by since), clock_timestamp()) as upto
        from storage_sizes(${projectIds}::text[], date_trunc(${unit}, ${from}::timestamptz, 'UTC'))
       where (${branchIds}::text[] is null or branch_id = any (${branchIds}::text[]))
         and not (is_snapshot and ${byBranch}::bool)),
    stored as (
      select s.project_id, case when ${byBranch}::bool then s.branch_id end as branch_id, b.since,
             sum(s.bytes * hours) filter (where s.is_root and not s.is_snapshot) as root_byte_hours,
             sum(s.bytes * hours) filter (where not s.is_root and not s.is_snapshot) as child_byte_hours,
             sum(s.history_bytes * hours) as history_byte_hours,
             sum(s.bytes * hours) filter (where s.is_snapshot) as snapshot_byte_hours
        from bucket b join size s on s.since < b.upto and s.upto > b.since,
             lateral (select extract(epoch from least(s.upto, b.upto) - greatest(s.since, b.since))::float8 / 3600)
               l (hours)
       group by 1, 2, 3),
    step as (
      select project_id, at, sum(sum(delta)) over (partition by project_id order by at) as branches,
             lead(at, 1, clock_timestamp()) over (partition by project_id order by at) as upto
        from (select project_id, created_at as at, 1 as delta from branch where project_id = any (${projectIds}::text[])
              union all
              select project_id, deleted_at, -1 from branch
               where project_id = any (${projectIds}::text[]) and deleted_at is not null) change
       group by project_id, at),
    extra as (
      select s.project_id, null::text as branch_id, b.since,
             sum((s.branches - ${includedBranches}::int)
                 * extract(epoch from least(s.upto, b.upto) - greatest(s.at, b.since))::float8 / 3600) as hours
        from bucket b join step s on s.at < b.upto and s.upto > b.since
       where not ${byBranch}::bool and s.branches > ${includedBranches}::int
       group by 1, 2, 3)
    select project_id, branch_id, since, sum(compute_seconds)::float8 as compute_seconds,
           sum(transfer_bytes)::int8 as transfer_bytes, coalesce(sum(root_byte_hours), 0)::float8 as root_byte_hours,
           coalesce(sum(child_byte_hours), 0)::float8 as child_byte_hours,
           coalesce(sum(history_byte_hours), 0)::float8 as history_byte_hours,
           coalesce(sum(snapshot_byte_hours), 0)::float8 as snapshot_byte_hours,
           sum(hours)::float8 as extra_branch_hours
      from (select project_id, branch_id, since, compute_seconds, transfer_bytes, 0 as root_byte_hours,
                   0 as child_byte_hours, 0 as history_byte_hours, 0 as snapshot_byte_hours, 0 as hours from used
            union all
            select project_id, branch_id, since, 0, 0, root_byte_hours, child_byte_hours, history_byte_hours,
                   snapshot_byte_hours, 0 from stored
            union all select project_id, branch_id, since, 0, 0, 0, 0, 0, 0, hours from extra) part
     group by project_id, branch_id, since order by project_id, branch_id, since`)
}

/** A branch, by which pages of branches are ordered. */
export interface BranchKey {
  readonly project_id: string
  readonly branch_id: string
}

/** The branches of projects, the deleted ones too, that existed in a time, `limit` at most after `after`. */
export function listBranchesOf(
  db: Db,
  { projectIds, branchIds, from, to, granularity }: Omit<UseRange, 'byBranch' | 'includedBranches'>,
  limit: number,
  after: BranchKey | undefined,
): Promise<BranchKey[]> {
  return db.rows(sql`
    select project_id, id as branch_id from branch
     where project_id = any (${projectIds}::text[]) and not is_snapshot
       and (${branchIds}::text[] is null or id = any (${branchIds}::text[]))
       and created_at < ${to}::timestamptz
       and (deleted_at is null or deleted_at > date_trunc(${UNITS[granularity]}, ${from}::timestamptz, 'UTC'))
       and (${after?.project_id}::text is null or (project_id, id) > (${after?.project_id}, ${after?.branch_id}))
     order by project_id, id limit ${limit}`)
}

/** Removes up to `limit` hours and months past their retention. Returns how many it removed. */
export async function expireConsumption(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from consumption where (project_id, period, since, branch_id) in (
      select project_id, period, since, branch_id from consumption
       where period = 'hour' and since < statement_timestamp() - make_interval(days => ${KEPT_HOUR_DAYS})
          or period = 'month' and since < statement_timestamp() - make_interval(months => ${KEPT_MONTHS})
       limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}

/** Removes up to `limit` sizes that were replaced before their retention ended. Returns how many it removed. */
export async function expireSizes(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from storage_size where ctid = any (array(
      select s.ctid from storage_size s
       where s.since < statement_timestamp() - make_interval(months => ${KEPT_MONTHS})
         and exists (select from storage_size later
                      where later.project_id = s.project_id and later.branch_id = s.branch_id and later.since > s.since
                        and later.since < statement_timestamp() - make_interval(months => ${KEPT_MONTHS}))
       limit ${limit} for update skip locked))
    returning 1`)
  return rows.length
}
