import type { Db, Transaction } from '../catalog/catalog.ts'
import { sql } from '../catalog/sql.ts'
import type { Claimed } from './definition.ts'

/** The step name under which `onFailure` runs. */
export const FAILURE = 'failure'

/** A step that begins this often without an outcome, not even an error, kills its workers: the operation fails. */
const MAX_ATTEMPTS = 20

/** Deadline of the failure step, in seconds: its own, since the operation's may have passed. */
const FAILURE_SECONDS = 60

/** The first failed dependency of an operation `o`, with its error. */
const FAILED_DEPENDENCY = sql`
  select d.action || ' ' || d.id || ': ' || coalesce(d.error, 'failed')
    from operation d where d.id = any (o.depends_on) and d.status = 'failed' order by d.seq limit 1`

export interface Due extends Claimed {
  readonly attempts: number
  readonly failures_count: number
  readonly deadline_seconds: number
  readonly started_at: string
  /** Id of the API request that queued it, if any. */
  readonly request_id: string | null
  /** At the failure step: the error that led to it, if this worker caught it. */
  readonly cause?: unknown
}

export interface Claims {
  readonly due: readonly Due[]
  /** The catalog's time before the claim. Operations that became due later may be missing. */
  readonly now: string
}

/**
 * Claims due operations of these actions: those that no unfinished operation with a lower seq blocks. Counts the
 * attempt and raises the generation, which fences off the previous owner. An operation that depends on a failed one, is
 * overdue or has used up its attempts comes back at its failure step. An `updated_at` in the future shows that the
 * clock stepped back: `run_at` is ignored then, unless it lies a minute or more after `updated_at`, longer than steps
 * ever wait. Commits asynchronously: a claim that a crash of the catalog loses is made again.
 * @param host id of the host whose operations are claimed, besides those of none
 * @param driven ids of operations that the caller already drives, possibly between two steps
 * @param most maximum number to claim
 * @param leaseSeconds how long other workers skip the operations, until their first step begins and its row lock takes
 * over. No lease unless given
 */
export async function claim(
  db: Db,
  actions: readonly string[],
  host: string,
  driven: readonly string[] = [],
  most = 1,
  leaseSeconds?: number,
): Promise<Claims> {
  const rows = await db.rows<Due & { readonly now: string; readonly id: string | null }>(sql`
    with candidate as (
      select o.id, o.attempts >= ${MAX_ATTEMPTS} as worn_out, o.deadline_at < clock_timestamp() as overdue,
             (${FAILED_DEPENDENCY}) as failed_dependency
        from due_operations(${actions}, ${driven}::uuid[], ${most}, ${host}) o
       where o.run_at <= clock_timestamp() or o.run_at < o.updated_at + interval '1 minute'),
    due as (
      select *, worn_out or coalesce(overdue, false) or failed_dependency is not null as doomed,
             set_config('synchronous_commit', 'off', true)
        from candidate),
    claimed as (
      update operation o
         set status = 'running', generation = o.generation + 1, updated_at = clock_timestamp(),
             run_at = coalesce(clock_timestamp() + make_interval(secs => ${leaseSeconds}::float8), o.run_at),
             started_at = coalesce(o.started_at, clock_timestamp()),
             deadline_at = case when due.doomed and o.step <> ${FAILURE}
                                then clock_timestamp() + make_interval(secs => ${FAILURE_SECONDS})
                                else coalesce(o.deadline_at,
                                              clock_timestamp() + make_interval(secs => o.deadline_seconds)) end,
             step = case when due.doomed then ${FAILURE} else o.step end,
             attempts = case when due.doomed and o.step <> ${FAILURE} then 1 else o.attempts + 1 end,
             error = case when o.step = ${FAILURE} then o.error
                          when due.failed_dependency is not null then 'dependency failed: ' || due.failed_dependency
                          when due.overdue then 'not done within ' || o.deadline_seconds || ' s'
                               || coalesce('; last: ' || o.error, '')
                          when due.worn_out then 'given up after ' || o.attempts || ' attempts at ' || o.step
                               || coalesce('; last: ' || o.error, '')
                          else o.error end
        from due where o.id = due.id
      returning o.*)
    select statement_timestamp() as now, (select epoch from installation), claimed.*
      from (select) always left join claimed on true order by claimed.seq`)
  return { due: rows.filter((row) => row.id !== null), now: rows[0]?.now ?? '' }
}

/** Why a step must not begin: another worker has the operation, its deadline has passed, or a dependency failed. */
export type StepLock = 'locked' | 'overdue' | 'taken' | { readonly needs: string }

/**
 * Locks the operation for one step, unless another worker has taken it over or has it locked. The step's transaction
 * commits asynchronously: a move that a crash of the catalog loses is made again. A claim may see that a dependency has
 * ended but not yet that it failed, so dependencies are checked here again.
 */
export async function lockForStep(tx: Db, operation: Pick<Due, 'id' | 'generation'>): Promise<StepLock> {
  const row = await tx.row<{ overdue: boolean; needs: string | null }>(sql`
    select deadline_at < clock_timestamp() as overdue, set_config('synchronous_commit', 'off', true),
           case when step <> ${FAILURE} then
             (${FAILED_DEPENDENCY}) end as needs
      from operation o
     where id = ${operation.id} and generation = ${operation.generation} and finished_at is null
       for no key update skip locked`)
  if (!row) return 'taken'
  if (row.needs !== null) return { needs: row.needs }
  return row.overdue ? 'overdue' : 'locked'
}

/**
 * Moves to a step that begins `seconds` from now, or (a reason) waits with the same one. The work is recorded.
 * @param advances whether a reason other than the last one puts off the deadline
 */
export function moveTo(
  tx: Transaction,
  id: string,
  step: string,
  seconds: number,
  attempts: number,
  waitReason: string | null = null,
  advances = false,
): void {
  tx.last(sql`
    update operation set step = ${step}, attempts = ${attempts}, retry_at = null, wait_reason = ${waitReason},
           deadline_at = case when ${advances}::boolean and wait_reason is distinct from ${waitReason}
                              then clock_timestamp() + make_interval(secs => deadline_seconds) else deadline_at end,
           steps = case when step = ${step} then steps else with_step(steps, step, null) end,
           updated_at = clock_timestamp(), run_at = clock_timestamp() + make_interval(secs => ${seconds})
     where id = ${id}`)
}

/** Records a transient failure; the same step begins again after `seconds`. */
export function retryLater(tx: Transaction, id: string, seconds: number, error: string): undefined {
  tx.last(sql`
    update operation set failures_count = failures_count + 1, error = ${error}, wait_reason = null,
           steps = with_step(steps, step, ${error}), updated_at = clock_timestamp(),
           attempts = case when step = ${FAILURE} then attempts else 0 end,
           retry_at = clock_timestamp() + make_interval(secs => ${seconds}),
           run_at = clock_timestamp() + make_interval(secs => ${seconds}) where id = ${id}`)
  return undefined
}

/** Records a permanent failure; the failure step begins within `leaseSeconds`. */
export function giveUp(tx: Transaction, id: string, error: string, leaseSeconds: number): void {
  tx.last(sql`
    update operation set failures_count = failures_count + 1, error = ${error}, wait_reason = null,
           steps = with_step(steps, step, ${error}), step = ${FAILURE}, attempts = 1, retry_at = null,
           updated_at = clock_timestamp(),
           deadline_at = clock_timestamp() + make_interval(secs => ${FAILURE_SECONDS}),
           run_at = clock_timestamp() + make_interval(secs => ${leaseSeconds})
     where id = ${id}`)
}

/**
 * Ends the operation. Apart from its insertion, the only commit of an operation that waits for the disk. The caller
 * notifies listeners afterwards, with `notifyCompleted`.
 */
export function end(tx: Transaction, id: string, status: 'finished' | 'failed', error: string | null): 'ended' {
  tx.last(sql`
    update operation set status = ${status}, error = ${error}, retry_at = null, wait_reason = null,
           steps = with_step(steps, step, null), updated_at = clock_timestamp(), finished_at = clock_timestamp()
     where id = ${id}
    returning set_config('synchronous_commit', 'on', true), set_config('neap.tells_later', 'on', true)`)
  return 'ended'
}

/** Notifies listeners of ended operations. Call after the transactions that ended them have committed. */
export async function notifyCompleted(db: Db, ids: readonly string[]): Promise<void> {
  await db.rows(sql`
    select tell_ended(o), set_config('synchronous_commit', 'off', true)
      from operation o where id = any (${ids}::uuid[])`)
}

/**
 * Milliseconds until the next operation of a host that was not yet due at `since`, a time of the catalog. Returns
 * undefined when there is no such operation.
 */
export async function nextDue(db: Db, host: string, since: string): Promise<number | undefined> {
  const row = await db.row<{ ms: number | null }>(sql`
    select extract(epoch from min(run_at) - clock_timestamp())::float8 * 1000 as ms
      from operation
     where finished_at is null and run_at > ${since}::timestamptz and (host_id is null or host_id = ${host})`)
  return row?.ms ?? undefined
}
