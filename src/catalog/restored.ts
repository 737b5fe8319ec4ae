/** A catalog that was restored from the repository of backups, with its stores. */
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A store to be restored, with its branch. */
export interface StoreToFetch {
  readonly id: string
  readonly project_id: string
  readonly branch_id: string
  readonly branch_name: string
}

/** The stores of a host that have data. */
export function listStoresToFetch(db: Db, hostId: string): Promise<StoreToFetch[]> {
  return db.rows(sql`
    select s.id, b.project_id, b.id as branch_id, b.name as branch_name
      from store s join branch b on b.store_id = s.id
     where s.host_id = ${hostId} and s.state = 'ready' order by s.number`)
}

/** Has the history and the backups of stores begin anew: their files are not there. */
export async function beginAnew(tx: Db): Promise<void> {
  await tx.rows(sql`delete from base`)
  await tx.rows(sql`delete from store_backup`)
  await tx.rows(sql`
    update store set first_segment = null, is_chained = false, is_cut = false, archived_segment = null,
           history_bytes = 0, counted_history_bytes = 0, backup_due_at = clock_timestamp(), backup_error = null`)
}
