import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A rhythm of a schedule; times are of UTC. */
export interface ScheduleItem {
  readonly frequency: 'hourly' | 'daily' | 'weekly' | 'monthly' | 'yearly'
  /** 0 unless given; unused where it is hourly. */
  readonly hour?: number
  /** Of the week (Monday is 1), or of the month, whose last day stands for days that it lacks; 1 unless given. */
  readonly day?: number
  /** Of a yearly rhythm (January is 1); 1 unless given. */
  readonly month?: number
  /** How long its snapshots are kept; without it for ever. */
  readonly retention_seconds?: number
}

/** Sets the schedule of a branch and when it is due next. */
export async function setSchedule(
  tx: Db,
  branchId: string,
  items: readonly ScheduleItem[],
  nextAt: string,
): Promise<void> {
  await tx.rows(sql`
    insert into snapshot_schedule (branch_id, items, next_at)
    values (${branchId}, ${JSON.stringify(items)}::jsonb, ${nextAt}::timestamptz)
    on conflict (branch_id) do update set items = excluded.items, next_at = excluded.next_at`)
}

export async function removeSchedule(tx: Db, branchId: string): Promise<void> {
  await tx.rows(sql`delete from snapshot_schedule where branch_id = ${branchId}`)
}

export interface Schedule {
  readonly branch_id: string
  readonly items: readonly ScheduleItem[]
  readonly next_at: string
}

export function findSchedule(db: Db, branchId: string): Promise<Schedule | undefined> {
  return db.row(sql`select branch_id, items, next_at from snapshot_schedule where branch_id = ${branchId}`)
}

/** A schedule that is due, with the branch that it is for. */
export interface DueSchedule {
  readonly branch_id: string
  readonly project_id: string
  readonly account_id: string
}

/** The schedules that are due, of branches that are ready; at most 50, the longest due first. */
export function listDueSchedules(db: Db): Promise<DueSchedule[]> {
  return db.rows(sql`
    select b.id as branch_id, b.project_id, b.account_id
      from snapshot_schedule s join branch b on b.id = s.branch_id and b.deleted_at is null
      join project p on p.id = b.project_id and p.deleted_at is null
     where s.next_at <= statement_timestamp() and b.current_state <> 'init' order by s.next_at limit 50`)
}
