import { awaitCondition } from '../await_condition.ts'
import { firstUuidOf, newOperationId } from '../ids.ts'
import type { Catalog, Db } from './catalog.ts'
import type { Endpoint } from './endpoint.ts'
import { sql } from './sql.ts'

export type OperationStatus = 'scheduling' | 'running' | 'finished' | 'failed'

export interface Operation {
  readonly id: string
  readonly account_id: string
  readonly project_id: string
  readonly branch_id: string | null
  readonly endpoint_id: string | null
  readonly seq: number
  readonly action: string
  readonly status: OperationStatus
  readonly failures_count: number
  readonly retry_at: string | null
  readonly error: string | null
  /** Why it was asked for, where its action has reasons. */
  readonly reason: string | null
  /** The event that it waits for at the moment; null: it does not wait. */
  readonly wait_reason: string | null
  readonly created_at: string
  readonly updated_at: string
  readonly started_at: string | null
  readonly finished_at: string | null
}

export interface NewOperation {
  readonly account_id: string
  readonly project_id: string
  readonly branch_id?: string | undefined
  readonly endpoint_id?: string | undefined
  readonly action: string
  readonly input: object
  readonly step: string
  readonly excludes: readonly string[]
  readonly shares: readonly string[]
  readonly passes_shared: boolean
  readonly depends_on: readonly string[]
  /** It also depends on the unfinished operations that create data of these branches, or bring them back. */
  readonly needed_branches?: readonly string[]
  readonly deadline_seconds: number
}

/**
 * The condition of an operation that is looked up by its id. Not `finished_at is null`: the planner takes an index of
 * the unfinished ones for the cheaper, which a tenant has filled since the table was analyzed.
 */
export const IS_UNFINISHED = sql`status in ('scheduling', 'running')`

/**
 * Inserts an operation at the end of its project's order. Locks the project's row first, so that `seq`, `created_at`
 * and commit order agree even if the clock steps back.
 */
export async function insertOperation(tx: Db, operation: NewOperation): Promise<Operation> {
  const row = await tx.row<Operation>(sql`
    with project as (
      update project set last_seq = last_seq + 1,
             last_operation_at = greatest(clock_timestamp(), last_operation_at + interval '1 microsecond')
       where id = ${operation.project_id} returning last_seq, last_operation_at)
    insert into operation (id, account_id, project_id, branch_id, endpoint_id, seq, action, input, step, excludes,
                           shares, passes_shared, depends_on, deadline_seconds, created_at, host_id)
    select ${newOperationId()}, ${operation.account_id}, ${operation.project_id}, ${operation.branch_id},
           ${operation.endpoint_id}, last_seq, ${operation.action}, ${JSON.stringify(operation.input)},
           ${operation.step}, ${operation.excludes}, ${operation.shares}, ${operation.passes_shared},
           array(select o.id from branch b join operation o on o.branch_id = b.id
                  where b.id = any (${operation.needed_branches ?? []}::text[])
                    and o.project_id = ${operation.project_id} and o.finished_at is null
                    and (b.current_state = 'init' and o.action in ('create_timeline', 'create_branch')
                         or o.action = 'timeline_unarchive') order by o.seq)
             || ${operation.depends_on}::uuid[], ${operation.deadline_seconds}, last_operation_at,
           case when ${operation.branch_id}::text is null
                then (select s.host_id from branch b join store s on s.id = b.store_id
                       where b.project_id = ${operation.project_id} limit 1)
                else (select s.host_id from branch b join store s on s.id = b.store_id
                       where b.id = ${operation.branch_id}) end
      from project returning *`)
  if (!row) throw new Error(`project ${operation.project_id} has no row to order operations by`)
  return row
}

/** Hands an operation to another host. */
export async function moveToHost(tx: Db, id: string, hostId: string): Promise<void> {
  await tx.rows(sql`update operation set host_id = ${hostId} where id = ${id}`)
}

/** Postpones the start of an operation by so many hours. */
export async function postponeOperation(tx: Db, id: string, hours: number): Promise<void> {
  await tx.rows(
    sql`update operation set run_at = clock_timestamp() + make_interval(hours => ${hours}) where id = ${id}`,
  )
}

/** The number of recorded failures of an operation. */
export async function failuresOf(tx: Db, operationId: string): Promise<number> {
  const row = await tx.row<{ failures_count: number }>(
    sql`select failures_count from operation where id = ${operationId}`,
  )
  return row?.failures_count ?? 0
}

/**
 * The unfinished operations of a branch, oldest first.
 * @param endpointId also includes this endpoint's operations on other branches, such as the suspend on a branch that it
 * has left
 */
export function unfinishedOperations(db: Db, branchId: string, endpointId?: string): Promise<Operation[]> {
  return db.rows(sql`
    select o.* from operation o
     where o.project_id = (select project_id from branch where id = ${branchId}) and o.finished_at is null
       and (o.branch_id = ${branchId} or o.endpoint_id = ${endpointId ?? null}) order by o.seq`)
}

/** Whether other operations of the branch of an operation, or of its whole project, are due. */
export async function isWaitedFor(db: Db, id: string): Promise<boolean> {
  const row = await db.row(sql`
    select from operation own join operation o on o.project_id = own.project_id and o.id <> own.id
     where own.id = ${id} and o.finished_at is null
       and (o.branch_id = own.branch_id or own.project_id = any (o.excludes) and o.run_at <= clock_timestamp())`)
  return row !== undefined
}

/** Whether an operation stops the compute of a branch that its endpoint has left. */
export async function isOfMove(db: Db, id: string): Promise<boolean> {
  const row = await db.row<{ is: boolean }>(sql`select input ? 'to' as is from operation where id = ${id}`)
  return row?.is ?? false
}

/** The last unfinished start or suspend of an endpoint, on any branch: it determines the endpoint's final state. */
export function lastMove(db: Db, endpoint: Pick<Endpoint, 'id' | 'project_id'>): Promise<Operation | undefined> {
  return db.row(sql`
    select * from operation
     where project_id = ${endpoint.project_id} and endpoint_id = ${endpoint.id} and finished_at is null
       and action in ('start_compute', 'suspend_compute') order by seq desc limit 1`)
}

/** What the unfinished operations of an endpoint wait for at the moment, if one of them waits. */
export async function waitReasonOf(db: Db, endpointId: string): Promise<string | undefined> {
  const row = await db.row<{ wait_reason: string | null }>(sql`
    select wait_reason from operation
     where project_id = (select project_id from endpoint where id = ${endpointId}) and endpoint_id = ${endpointId}
       and finished_at is null and wait_reason is not null order by seq limit 1`)
  return row?.wait_reason ?? undefined
}

export async function hasUnfinishedOperations(db: Db, projectId: string): Promise<boolean> {
  const row = await db.row(sql`select 1 from operation where project_id = ${projectId} and finished_at is null limit 1`)
  return row !== undefined
}

/** Whether a project has at least so many unfinished operations. */
export async function hasQueued(db: Db, projectId: string, count: number): Promise<boolean> {
  const row = await db.row(sql`
    select 1 from operation where project_id = ${projectId} and finished_at is null offset ${count - 1} limit 1`)
  return row !== undefined
}

export function findOperation(
  db: Db,
  accountId: string,
  projectId: string,
  id: string,
): Promise<Operation | undefined> {
  // Selects only the columns that clients see: they poll this query.
  return db.row(sql`
    select id, account_id, project_id, branch_id, endpoint_id, seq, action, status, failures_count, retry_at, error,
           reason, wait_reason, created_at, updated_at, started_at, finished_at
      from operation where id = ${id} and project_id = ${projectId} and account_id = ${accountId}`)
}

/** The record of a step: that it was done, or (an error) an attempt that failed. */
export interface StepRecord {
  readonly step: string
  readonly at: string
  readonly error?: string
}

/** The course of an operation. */
export interface OperationCourse {
  /** The step that it is at. */
  readonly step: string
  /** Oldest first. */
  readonly steps: readonly StepRecord[]
  /** The API request that asked for it, if one did. */
  readonly request_id: string | null
  /** Its input names another branch: it stops the compute on a branch that its endpoint has left. */
  readonly is_of_move: boolean
  /** The first unfinished operations that it stands behind, oldest first, and their actions. */
  readonly behind: readonly { readonly id: string; readonly action: string }[]
}

const MAX_BEHIND = 5

/** The course of an operation; undefined when it is gone. */
export function readCourse(db: Db, id: string): Promise<OperationCourse | undefined> {
  return db.row(sql`
    select o.step, o.steps, o.request_id, o.input ? 'to' as is_of_move,
           coalesce((select jsonb_agg(jsonb_build_object('id', b.id, 'action', b.action) order by b.seq)
              from (select b.id, b.action, b.seq from operation b
                     where o.status = 'scheduling' and b.project_id = o.project_id and b.finished_at is null
                       and b.seq < o.seq
                       and (b.excludes && (o.excludes || o.shares) or b.id = any (o.depends_on)
                            or not o.passes_shared and b.shares && o.excludes)
                     order by b.seq limit ${MAX_BEHIND}) b), '[]') as behind
      from operation o where o.id = ${id}`)
}

export interface OperationFilter {
  readonly endpoint_id?: string | undefined
  readonly branch_id?: string | undefined
  readonly action?: string | undefined
  readonly status?: OperationStatus | undefined
}

/** One page, newest first: at most `limit` operations older than `before`, the `created_at` of the last one seen. */
export function listOperations(
  db: Db,
  projectId: string,
  limit: number,
  before: string | undefined,
  filter: OperationFilter = {},
): Promise<Operation[]> {
  return db.rows(sql`
    select * from operation
     where project_id = ${projectId} and created_at < coalesce(${before}::timestamptz, 'infinity') and ${passes(filter)}
     order by created_at desc limit ${limit}`)
}

/**
 * The condition of a filter. One attribute is served by its own index in page order. The others are checked per row,
 * written so that the planner does not estimate them as rare: otherwise it would sort all rows.
 */
function passes({ endpoint_id, branch_id, action, status }: OperationFilter) {
  const hasAction = sql`(${action}::text is null or action = ${action})`
  const hasStatus = sql`(${status}::text is null or status = ${status})`
  if (endpoint_id)
    return sql`
      endpoint_id = ${endpoint_id} and (${branch_id}::text is null or branch_id = ${branch_id})
      and ${hasAction} and ${hasStatus}`
  if (branch_id) return sql`branch_id = ${branch_id} and ${hasAction} and ${hasStatus}`
  if (status === 'failed')
    return sql`finished_at is not null and error is not null and status = 'failed' and ${hasAction}`
  if (status === 'scheduling' || status === 'running')
    return sql`finished_at is null and status = ${status} and ${hasAction}`
  return action ? sql`action = ${action} and ${hasStatus}` : hasStatus
}

/** Sets the attributes of an operation that fails before it has begun. */
const failsUnbegun = (error: string) =>
  sql`status = 'failed', error = ${error}, finished_at = clock_timestamp(), updated_at = clock_timestamp()`

/**
 * Cancels an operation that has not begun: it ends `failed` with the reason. Returns undefined when it has begun or
 * ended.
 */
export function cancelOperation(tx: Db, id: string, because: string): Promise<Operation | undefined> {
  return tx.row(sql`
    update operation set ${failsUnbegun(`cancelled: ${because}`)}
     where id = ${id} and status = 'scheduling' returning *`)
}

/** Fails an operation that has not begun: it records an event that has already happened. */
export async function failUnbegun(tx: Db, id: string, error: string): Promise<void> {
  await tx.rows(sql`update operation set ${failsUnbegun(error)} where id = ${id} and status = 'scheduling'`)
}

/** A worker may die between its commit and the notification. */
const UNTOLD_MS = 2_000

/** Waits until all these operations have ended, for at most `ms` or until `gone`. Returns their state then. */
export async function awaitOperations(
  catalog: Catalog,
  ids: readonly string[],
  ms: number,
  gone?: AbortSignal,
): Promise<Operation[]> {
  return awaitCondition({
    subscribe: (wake) =>
      catalog.listen('operation', (payload) => {
        if (!payload || ids.some((id) => payload.startsWith(id))) wake()
      }),
    read: () => catalog.rows<Operation>(sql`select * from operation where id = any (${ids}::uuid[]) order by seq`),
    isMet: (operations) => operations.every((operation) => operation.finished_at),
    until: AbortSignal.any([AbortSignal.timeout(Math.ceil(ms)), ...(gone ? [gone] : [])]),
    rereadMs: UNTOLD_MS,
  })
}

/**
 * Cancels the operations of a project (or only of a branch or endpoint) that have not begun: they end `failed` with the
 * reason. Branches whose creation is cancelled lose their pending state. Suspends on a branch that the endpoint has
 * left are not cancelled: no other operation would stop that compute. Call with the project locked; locks the branches.
 */
export async function cancelUnbegun(
  tx: Db,
  projectId: string,
  only: { readonly branchId?: string; readonly endpointId?: string },
  because: string,
): Promise<void> {
  // Order of locks: the end of an operation locks its endpoint, which comes after the branches.
  if (only.endpointId === undefined)
    await tx.rows(sql`
      select from branch where project_id = ${projectId} and (${only.branchId}::text is null or id = ${only.branchId})
       order by id for no key update`)
  await tx.rows(sql`
    with cancelled as (
      update operation set ${failsUnbegun(`cancelled: ${because}`)}
       where project_id = ${projectId} and status = 'scheduling'
         and (${only.branchId}::text is null or branch_id = ${only.branchId})
         and (${only.endpointId}::text is null or endpoint_id = ${only.endpointId})
         and not input ? 'to'
      returning action, branch_id)
    update branch set pending_state = null, updated_at = clock_timestamp()
     where id in (select branch_id from cancelled where action in ('create_branch', 'create_timeline'))`)
}

/**
 * Removes up to `limit` operations that ended at least `days` ago, the oldest first. Returns how many it removed. Their
 * ids begin with the time, so the primary key finds them and no other index of this table, which each operation would
 * pay for, is needed.
 */
export async function expireOperations(db: Db, days: number, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from operation where id in (
      select id from operation
       where id < ${firstUuidOf(Date.now() - days * 86_400_000)}::uuid
         and finished_at < statement_timestamp() - make_interval(days => ${days})
       order by id limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
