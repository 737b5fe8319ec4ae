import type { Db } from './catalog.ts'
import type { Operation } from './operation.ts'
import { sql } from './sql.ts'

/** The channel of new events; the payload is the id of their project. */
export const OPERATION_EVENTS = 'operation_event'

/** An operation as it was after one change. */
export type OperationEvent = Omit<Operation, 'wait_reason'> & { readonly number: number }

/**
 * The visible transactions of a reading, as a pg_snapshot (Postgres manual, "Transaction ID and Snapshot Information
 * Functions").
 */
export type TransactionSnapshot = string

/** The snapshot before any transaction. */
export const BEFORE_ALL: TransactionSnapshot = '1:1:'

const PAGE = 1_000

export interface EventPage {
  readonly events: readonly OperationEvent[]
  /** With the last page: the snapshot that includes all of them. */
  readonly seen: TransactionSnapshot | undefined
}

/**
 * The events of a project that are not visible in the snapshot `seen`, in order, page by page. All pages are of the
 * snapshot of the first one. Up to a page of events takes one statement.
 * @param moment leaves out events not visible in this snapshot, which is later than `seen`
 */
export async function* eventsSince(
  db: Db,
  projectId: string,
  seen: TransactionSnapshot,
  moment?: TransactionSnapshot,
): AsyncGenerator<EventPage> {
  let last = 0
  let upTo = moment
  for (;;) {
    // One row more than a page shows whether another page follows.
    const rows = await db.rows<OperationEvent & { readonly seen: TransactionSnapshot }>(sql`
      select pg_current_snapshot()::text as seen, o.id, o.account_id, o.project_id, o.branch_id, o.endpoint_id, o.seq,
             o.action, o.reason, o.created_at, e.number, e.status, e.failures_count, e.error, e.retry_at, e.started_at,
             e.updated_at, e.finished_at
        from (select) always
        left join operation_event e on e.project_id = ${projectId} and e.xid >= pg_snapshot_xmin(${seen}::pg_snapshot)
         and not pg_visible_in_snapshot(e.xid, ${seen}::pg_snapshot)
         and coalesce(pg_visible_in_snapshot(e.xid, ${upTo}::pg_snapshot), true) and e.number > ${last}
        left join operation o on o.id = e.operation_id
       order by e.number limit ${PAGE + 1}`)
    upTo ??= rows[0]?.seen ?? seen
    const page = rows.slice(0, PAGE)
    const isLast = rows.length <= PAGE
    yield { events: page.filter(({ id }) => id !== null), seen: isLast ? upTo : undefined }
    if (isLast) return
    last = page.at(-1)?.number ?? last
  }
}

/** The current snapshot of the catalog. */
export async function snapshotNow(db: Db): Promise<TransactionSnapshot> {
  return (
    (await db.row<{ seen: TransactionSnapshot }>(sql`select pg_current_snapshot()::text as seen`))?.seen ?? BEFORE_ALL
  )
}

/**
 * Whether a snapshot is in this catalog's past; one of a replaced catalog may be ahead. Errors: Postgres' 22P02 for an
 * invalid snapshot.
 */
export async function isPast(db: Db, seen: TransactionSnapshot): Promise<boolean> {
  const row = await db.row<{ past: boolean }>(
    sql`select pg_snapshot_xmax(${seen}::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot()) as past`,
  )
  return row?.past ?? false
}

/** Removes up to `limit` events that are at least `days` old. Returns how many it removed. */
export async function expireEvents(db: Db, days: number, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from operation_event where (project_id, xid, number) in (
      select project_id, xid, number from operation_event
       where updated_at < statement_timestamp() - make_interval(days => ${days})
       order by updated_at limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
