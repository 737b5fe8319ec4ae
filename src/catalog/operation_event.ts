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

const PAGE = 1_000

export interface EventPage {
  readonly events: readonly OperationEvent[]
  /** With the last page: what has been seen after all of them. */
  readonly seen: Snapshot | undefined
}

/**
 * The next events of a project that were not in what has been seen, in the order in which they happened, page by page. All pages are
 * of the moment of the first one, and one statement brings them where they are few.
 * @param moment leaves out what is not in this snapshot, which is a later one than `seen`
 */
export async function* eventsSince(
  db: Db,
  projectId: string,
  seen: Snapshot,
  moment?: Snapshot,
): AsyncGenerator<EventPage> {
  let last = 0
  let upTo = moment
  for (;;) {
    // One row more than a page has tells whether another follows.
    const rows = await db.rows<OperationEvent & { readonly seen: Snapshot }>(sql`
      select pg_current_snapshot()::text as seen, o.id, o.account_id, o.project_id, o.branch_id, o.endpoint_id, o.seq, o.action, o.created_at,
             e.number, e.status, e.failures_count, e.error, e.retry_at, e.started_at, e.updated_at, e.finished_at
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
