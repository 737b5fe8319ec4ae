import type { Db } from './catalog.ts'
import type { Endpoint } from './endpoint.ts'
import { sql } from './sql.ts'

/* Conditions compare with statement_timestamp(): no index serves one with clock_timestamp(), which is volatile. */

/** An endpoint with a branch that is due for a check. */
export interface DueCheck extends Pick<Endpoint, 'id' | 'account_id' | 'project_id' | 'branch_id'> {
  /** Until then no other worker takes it. */
  readonly check_at: string
  /** When it was due. */
  readonly due_at: string
}

/** Reschedules checks that lie beyond the interval, and overdue ones that no worker queued, at random times. */
export async function spreadChecks(db: Db, intervalSeconds: number): Promise<void> {
  await db.rows(sql`
    update endpoint set check_at = clock_timestamp() + (0.5 + random() / 2) * make_interval(secs => ${intervalSeconds})
     where id in (select id from endpoint
                   where check_at > statement_timestamp() + make_interval(secs => ${intervalSeconds}::float8 + 60)
                      and deleted_at is null and not disabled for no key update skip locked)`)
  await db.rows(sql`
    update endpoint set check_at = clock_timestamp() + random() * make_interval(secs => ${intervalSeconds})
     where id in (select id from endpoint
                   where check_at < statement_timestamp()
                                    - make_interval(secs => greatest(${intervalSeconds}::float8 / 10, 60))
                     and deleted_at is null and not disabled for no key update skip locked)`)
}

/** Claims up to `most` endpoints whose check is due. No other worker claims them within the next minute. */
export function takeDueChecks(db: Db, most: number): Promise<DueCheck[]> {
  return db.rows(sql`
    with due as (
      select id, check_at from endpoint
       where check_at <= statement_timestamp() and deleted_at is null and not disabled
       order by check_at limit ${most} for no key update skip locked)
    update endpoint e set check_at = clock_timestamp() + interval '1 minute' from due where e.id = due.id
    returning e.id, e.account_id, e.project_id, e.branch_id, e.check_at, due.check_at as due_at`)
}

/**
 * Sets the next check `seconds` after this one was due, and at least half of that from now. Returns false, without a
 * change, when another worker has claimed it since.
 */
export async function setNextCheck(tx: Db, taken: DueCheck, seconds: number): Promise<boolean> {
  const row = await tx.row(sql`
    update endpoint
       set check_at = greatest(${taken.due_at}::timestamptz + make_interval(secs => ${seconds}),
                               clock_timestamp() + make_interval(secs => ${seconds}::float8 / 2))
     where id = ${taken.id} and check_at = ${taken.check_at}::timestamptz returning 1`)
  return row !== undefined
}

/**
 * Ensures that no check is queued for so many seconds, for a shutdown: claimed checks are dropped, queued ones are
 * visible as operations.
 */
export async function postponeChecks(db: Db, seconds: number): Promise<void> {
  await db.rows(sql`
    update endpoint set check_at = clock_timestamp() + make_interval(secs => ${seconds})
     where check_at < statement_timestamp() + make_interval(secs => ${seconds})
       and deleted_at is null and not disabled`)
}

/** Milliseconds until the next check is due. Returns undefined when there is no endpoint to check. */
export async function nextCheck(db: Db): Promise<number | undefined> {
  const row = await db.row<{ ms: number | null }>(sql`
    select extract(epoch from min(check_at) - clock_timestamp())::float8 * 1000 as ms
      from endpoint where deleted_at is null and not disabled`)
  return row?.ms ?? undefined
}

/** Whether an unfinished operation locks the branch, or excludes others from its project. */
export async function isBranchTaken(tx: Db, projectId: string, branchId: string): Promise<boolean> {
  const row = await tx.row(sql`
    select 1 from operation_hold
     where project_id = ${projectId} and (resource = ${branchId} or (resource = ${projectId} and exclusive)) limit 1`)
  return row !== undefined
}
