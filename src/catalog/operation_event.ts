import type { Db } from './catalog.ts'
import type { Operation } from './operation.ts'
import { sql } from './sql.ts'

/** The channel that tells of new events; the payload is the id of their project. */
export const OPERATION_EVENTS = 'operation_event'

/** An operation as it was after one change. */
export type OperationEvent = Operation & { readonly number: number }

/** What has been seen of the catalog, as Postgres writes a snapshot (Postgres manual, "Transaction ID and Snapshot Information Functions"). */
export type Snapshot = string

/** The snapshot in which nothing had happened yet. */
export const BEFORE_ALL: Snapshot = '1:1:'

/** The next events of a project that were not in what has been seen, in the order in which they happened, and what has been seen after them. */
export async function eventsSince(
  db: Db,
  projectId: string,
  seen: Snapshot,
): Promise<{ events: OperationEvent[]; seen: Snapshot }> {
  const rows = await db.rows<OperationEvent & { readonly seen: Snapshot }>(sql`
    select pg_current_snapshot()::text as seen, o.id, o.account_id, o.project_id, o.branch_id, o.endpoint_id, o.seq, o.action, o.created_at,
           e.number, e.status, e.failures_count, e.error, e.retry_at, e.started_at, e.updated_at, e.finished_at
      from (select) always
      left join operation_event e on e.project_id = ${projectId} and e.xid >= pg_snapshot_xmin(${seen}::pg_snapshot)
       and not pg_visible_in_snapshot(e.xid, ${seen}::pg_snapshot)
      left join operation o on o.id = e.operation_id
     order by e.number`)
  return { events: rows.filter(({ id }) => id !== null), seen: rows[0]?.seen ?? seen }
}

/** What can be seen of the catalog now. */
export async function snapshotNow(db: Db): Promise<Snapshot> {
  return (await db.row<{ seen: Snapshot }>(sql`select pg_current_snapshot()::text as seen`))?.seen ?? BEFORE_ALL
}

/** Whether a snapshot is one of this catalog's past; one of a catalog that was replaced may be ahead. Errors: Postgres' own (22P02) for what is none. */
export async function isPast(db: Db, seen: Snapshot): Promise<boolean> {
  const row = await db.row<{ past: boolean }>(
    sql`select pg_snapshot_xmax(${seen}::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot()) as past`,
  )
  return row?.past ?? false
}

export async function forgetEvents(db: Db, days: number): Promise<void> {
  await db.rows(sql`delete from operation_event where updated_at < clock_timestamp() - make_interval(days => ${days})`)
}
