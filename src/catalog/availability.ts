import type { Db } from './catalog.ts'
import type { Endpoint } from './endpoint.ts'
import { sql } from './sql.ts'

/** An endpoint whose branch it is time to check. */
export interface DueCheck extends Pick<Endpoint, 'id' | 'account_id' | 'project_id' | 'branch_id'> {
  /** Until when no other worker takes it. */
  readonly check_at: string
  /** When it was due. */
  readonly due_at: string
}

/** Gives new times, each its own, to checks that are later than the interval allows, and to those that nobody was there to do. */
export async function spreadChecks(db: Db, intervalSeconds: number): Promise<void> {
  await db.rows(sql`
    update endpoint set check_at = clock_timestamp() + (0.5 + random() / 2) * make_interval(secs => ${intervalSeconds})
     where id in (select id from endpoint
                   where check_at > clock_timestamp() + make_interval(secs => ${intervalSeconds}::float8 + 60)
                      and deleted_at is null and not disabled for no key update skip locked)`)
  await db.rows(sql`
    update endpoint set check_at = clock_timestamp() + random() * make_interval(secs => ${intervalSeconds})
     where id in (select id from endpoint
                   where check_at < clock_timestamp() - make_interval(secs => greatest(${intervalSeconds}::float8 / 10, 60))
                     and deleted_at is null and not disabled for no key update skip locked)`)
}

/** Takes endpoints whose check is due, at most so many, so that no other worker takes them within the next minute. */
export function takeDueChecks(db: Db, most: number): Promise<DueCheck[]> {
  return db.rows(sql`
    with due as (
      select id, check_at from endpoint
       where check_at <= clock_timestamp() and deleted_at is null and not disabled
       order by check_at limit ${most} for no key update skip locked)
    update endpoint e set check_at = clock_timestamp() + interval '1 minute' from due where e.id = due.id
    returning e.id, e.account_id, e.project_id, e.branch_id, e.check_at, due.check_at as due_at`)
}

/** Sets the next check `seconds` after this one was due. False, and nothing changed, when another worker has taken it since. */
export async function setNextCheck(tx: Db, taken: DueCheck, seconds: number): Promise<boolean> {
  const row = await tx.row(sql`
    update endpoint
       set check_at = greatest(${taken.due_at}::timestamptz + make_interval(secs => ${seconds}),
                               clock_timestamp() + make_interval(secs => ${seconds}::float8 / 2))
     where id = ${taken.id} and check_at = ${taken.check_at}::timestamptz returning 1`)
  return row !== undefined
}

/** Has no check begin for so many seconds: what is on its way to be queued is not, and what is queued can be seen. For a shutdown. */
export async function putOffChecks(db: Db, seconds: number): Promise<void> {
  await db.rows(sql`
    update endpoint set check_at = clock_timestamp() + make_interval(secs => ${seconds})
     where check_at < clock_timestamp() + make_interval(secs => ${seconds}) and deleted_at is null and not disabled`)
}

/** Milliseconds until the next check is due, or nothing where there is none. */
export async function nextCheck(db: Db): Promise<number | undefined> {
  const row = await db.row<{ ms: number | null }>(sql`
    select extract(epoch from min(check_at) - clock_timestamp())::float8 * 1000 as ms
      from endpoint where deleted_at is null and not disabled`)
  return row?.ms ?? undefined
}

/** Whether an unfinished operation has to do with the branch, alone or together with others, or with the whole project. */
export async function isBranchTaken(tx: Db, projectId: string, branchId: string): Promise<boolean> {
  const row = await tx.row(sql`
    select 1 from operation_hold
     where project_id = ${projectId} and (resource = ${branchId} or (resource = ${projectId} and exclusive)) limit 1`)
  return row !== undefined
}
