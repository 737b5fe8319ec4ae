import type { Db } from './catalog.ts'
import type { Operation } from './operation.ts'
import { sql } from './sql.ts'

/** The channel that tells of new events; the payload is the id of their project. */
export const OPERATION_EVENTS = 'operation_event'

/** An operation as it was after one change. `number` counts the changes of its project, without gaps and in the order of commits. */
export type OperationEvent = Operation & { readonly number: number }

/** The number of the last event of a project; 0 before the first. */
export async function lastEventNumber(db: Db, projectId: string): Promise<number> {
  const row = await db.row<{ last: number }>(
    sql`select last from operation_event_counter where project_id = ${projectId}`,
  )
  return row?.last ?? 0
}

/** The next events after a number, oldest first, at most a hundred. */
export function listEvents(db: Db, projectId: string, after: number): Promise<OperationEvent[]> {
  return db.rows(sql`
    select o.id, o.account_id, o.project_id, o.branch_id, o.endpoint_id, o.seq, o.action, o.created_at,
           e.number, e.status, e.failures_count, e.error, e.retry_at, e.started_at, e.updated_at, e.finished_at
      from operation_event e join operation o on o.id = e.operation_id
     where e.project_id = ${projectId} and e.number > ${after} order by e.number limit 100`)
}

export async function forgetEvents(db: Db, days: number): Promise<void> {
  await db.rows(sql`delete from operation_event where updated_at < clock_timestamp() - make_interval(days => ${days})`)
  await db.rows(sql`
    delete from operation_event_counter c where not exists (select 1 from project p where p.id = c.project_id)`)
}
