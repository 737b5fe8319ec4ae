import type { Db, Transaction } from '../catalog/catalog.ts'
import { IS_UNFINISHED } from '../catalog/operation.ts'
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

/** The free places in a lane of a worker. */
export interface Vacancy {
  readonly actions: readonly string[]
  /** Maximum number to claim. */
  readonly most: number
  /** The project of each operation that has a place there. */
  readonly busy: readonly string[]
  /** Maximum number of places of a project. */
  readonly share: number
  /** Accounts that get no place. */
  readonly left_out?: readonly string[]
}

export interface Claims {
  readonly due: readonly Due[]
  /** The catalog's time before the claim. Operations that became due later may be missing. */
  readonly now: string
}

/**
 * Claims due operations: those that no unfinished operation with a lower seq blocks. Projects take turns. Counts the
 * attempt and raises the generation, which fences off the previous owner. An operation that depends on a failed one, is
 * overdue or has used up its attempts comes back at its failure step. An `updated_at` in the future shows that the
 * clock stepped back: `run_at` is ignored then, unless it lies a minute or more after `updated_at`, longer than steps
 * ever wait. Commits asynchronously, since a claim that a crash of the catalog loses is made again; but the first of
 * an API request's operation waits for the disk, as its insertion did not.
 * @param host id of the host whose operations are claimed, besides those without a host
 * @param driven ids of operations that the caller already drives, possibly between two steps
 * @param leaseSeconds how long other workers skip the operations, until their first step begins and its row lock takes
 * over. No lease unless given
 */
export async function claim(
  db: Db,
  vacancies: readonly Vacancy[],
  host: string,
  driven: readonly string[] = [],
  leaseSeconds?: number,
): Promise<Claims> {
  for (;;) {
    const rows = await claimOnce(db, vacancies, host, driven, leaseSeconds)
    const due = rows.filter((row): row is ClaimRow & Due => row.id !== null)
    const first = rows[0]
    const moved = first && (first.releases || first.blocked) ? await sortQueues(db, first.blocked ?? []) : 0
    if (due.length > 0 || moved === 0) return { due, now: first?.now ?? '' }
  }
}

/** A claimed operation, or one row without any, with what all of the claim's rows have in common. */
interface ClaimRow extends Omit<Due, 'id'> {
  readonly id: string | null
  readonly now: string
  /** Blocked operations that it met. */
  readonly blocked: readonly string[] | null
  /** Whether operations have ended that others are recorded to stand behind. */
  readonly releases: boolean
}

function claimOnce(
  db: Db,
  vacancies: readonly Vacancy[],
  host: string,
  driven: readonly string[],
  leaseSeconds: number | undefined,
): Promise<ClaimRow[]> {
  return db.rows(sql`
    with looked as materialized (
      select * from due_operations(${JSON.stringify(vacancies)}::jsonb, ${driven}::uuid[], ${host})),
    candidate as (
      select o.id, o.attempts = 0 and o.request_id is not null as is_new,
             o.attempts >= ${MAX_ATTEMPTS} as worn_out, o.deadline_at < clock_timestamp() as overdue,
             (${FAILED_DEPENDENCY}) as failed_dependency
        from looked cross join lateral (select (looked.due).*) o
       where o.run_at <= clock_timestamp() or o.run_at < o.updated_at + interval '1 minute'),
    due as (
      select *, worn_out or coalesce(overdue, false) or failed_dependency is not null as doomed,
             set_config('synchronous_commit', case when bool_or(is_new) over () then 'on' else 'off' end, true)
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
    select statement_timestamp() as now, (select epoch from installation), claimed.*,
           (select array_agg(blocked_id) from looked where blocked_id is not null) as blocked,
           exists (select from operation_release) as releases
      from (select) always left join claimed on true order by claimed.seq`)
}

/**
 * Hides blocked operations from claims until the operation that each stands behind has ended, and shows those for which
 * it has. Returns how many it hid or showed.
 */
async function sortQueues(db: Db, blocked: readonly string[]): Promise<number> {
  const row = await db.row<{ moved: number }>(sql`
    select release_operations() + stand_behind(${blocked}::uuid[]) as moved,
           set_config('synchronous_commit', 'off', true)`)
  return row?.moved ?? 0
}

/** Why a step must not begin: another worker has the operation, its deadline has passed, or a dependency failed. */
export type StepLock = 'locked' | 'overdue' | 'taken' | { readonly failedDependency: string }

/**
 * Locks the operation for one step, unless another worker has taken it over or has it locked. The step's transaction
 * commits asynchronously: a move that a crash of the catalog loses is made again. A claim may see that a dependency has
 * ended but not yet that it failed, so dependencies are checked here again.
 */
export async function lockForStep(tx: Db, operation: Pick<Due, 'id' | 'generation'>): Promise<StepLock> {
  const row = await tx.row<{ overdue: boolean; failed_dependency: string | null }>(sql`
    select deadline_at < clock_timestamp() as overdue, set_config('synchronous_commit', 'off', true),
           case when step <> ${FAILURE} then
             (${FAILED_DEPENDENCY}) end as failed_dependency
      from operation o
     where id = ${operation.id} and generation = ${operation.generation} and ${IS_UNFINISHED}
       for no key update skip locked`)
  if (!row) return 'taken'
  if (row.failed_dependency !== null) return { failedDependency: row.failed_dependency }
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
  {
    seconds,
    attempts,
    reason,
    advances = false,
  }: { readonly seconds: number; readonly attempts: number; readonly reason?: string; readonly advances?: boolean },
): void {
  tx.last(sql`
    update operation set step = ${step}, attempts = ${attempts}, retry_at = null, wait_reason = ${reason},
           deadline_at = case when ${advances}::boolean and wait_reason is distinct from ${reason}
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

/** Makes operations due that this worker has kept off and no longer works on. */
export async function release(db: Db, ids: readonly string[]): Promise<void> {
  await db.rows(sql`
    update operation set run_at = clock_timestamp() where id = any (${ids}::uuid[]) and ${IS_UNFINISHED}`)
}

/**
 * Milliseconds until the next operation of these actions and a host that was not yet due at `since`, a time of the
 * catalog. Returns undefined when there is no such operation.
 */
export async function nextDue(
  db: Db,
  actions: readonly string[],
  host: string,
  since: string,
): Promise<number | undefined> {
  const row = await db.row<{ ms: number | null }>(sql`
    select extract(epoch from min(run_at) - clock_timestamp())::float8 * 1000 as ms
      from unnest(${actions}::text[]) a cross join lateral (
        select run_at from operation
         where action = a and finished_at is null and behind is null and run_at > ${since}::timestamptz
           and (host_id is null or host_id = ${host})
         order by run_at limit 1) o`)
  return row?.ms ?? undefined
}
