/** Drills: backups that are restored and checked. */
import { DRILL_LOCK_CLASS } from './advisory_locks.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A drill with the newest backup of a branch. */
export interface BackupDrill {
  readonly id: number
  readonly branch_id: string
  readonly started_at: string | null
  /** Null while it is waited for, or runs. */
  readonly finished_at: string | null
  /** The name of the backup, and until when commits were there. */
  readonly label: string | null
  readonly saved_until: string | null
  readonly bytes: number | null
  readonly databases: number | null
  readonly tables: number | null
  readonly indexes: number | null
  readonly row_count: number | null
  /** Why it failed; null if it has not. */
  readonly error: string | null
}

const COLUMNS = sql`
  id, branch_id, started_at, finished_at, label, saved_until, bytes, databases, tables, indexes, row_count, error`

/** A drill that is due. */
export type DueDrill = Pick<BackupDrill, 'id' | 'branch_id'>

/** Asks for a drill with a branch's newest backup. Returns its id. */
export async function requestDrill(db: Db, branchId: string): Promise<number> {
  const row = await db.row<{ id: number }>(sql`insert into backup_drill (branch_id) values (${branchId}) returning id`)
  return row?.id ?? 0
}

/** Asks for a drill with each protected branch of a host whose last one was asked for so many hours ago. */
export async function requestDueDrills(db: Db, hostId: string, hours: number): Promise<void> {
  await db.rows(sql`
    insert into backup_drill (branch_id)
    select b.id from branch b join store s on s.id = b.store_id join store_backup k on k.store_id = s.id
     where b.protected and b.deleted_at is null and s.host_id = ${hostId} and k.pushed_at is not null
       and not exists (
         select from backup_drill d
          where d.branch_id = b.id and d.requested_at > clock_timestamp() - make_interval(hours => ${hours}))`)
}

const due = (hostId: string) => sql`
  select d.id from backup_drill d join branch b on b.id = d.branch_id join store s on s.id = b.store_id
   where d.finished_at is null and s.host_id = ${hostId} order by d.id limit 1`

/** Whether a drill on a host waits, or runs. */
export const hasDueDrill = async (db: Db, hostId: string): Promise<boolean> => (await db.row(due(hostId))) !== undefined

/** Takes the lock of a host's drills for a session. Returns false while another worker of the host has it. */
export async function lockDrills(session: Db, hostId: string): Promise<boolean> {
  const row = await session.row<{ is_locked: boolean }>(
    sql`select pg_try_advisory_lock(${DRILL_LOCK_CLASS}, hashtext(${hostId})) as is_locked`,
  )
  return row?.is_locked ?? false
}

/** Begins the drill that has waited longest, if one does. */
export function beginDrill(db: Db, hostId: string): Promise<DueDrill | undefined> {
  return db.row(sql`
    with next as (${due(hostId)})
    update backup_drill set started_at = clock_timestamp() where id = (select id from next) returning id, branch_id`)
}

/** Drills that are kept of each branch. */
const KEPT = 30

/** Records the end of a drill. */
export async function endDrill(
  db: Db,
  { id, branch_id }: Pick<DueDrill, 'id' | 'branch_id'>,
  result: Pick<BackupDrill, 'error'> & Partial<BackupDrill>,
): Promise<void> {
  const { error, label = null, saved_until = null, bytes = null } = result
  const { databases = null, tables = null, indexes = null, row_count = null } = result
  await db.rows(sql`
    update backup_drill
       set finished_at = clock_timestamp(), error = ${error}, label = ${label},
           saved_until = ${saved_until}::timestamptz, bytes = ${bytes}, databases = ${databases}, tables = ${tables},
           indexes = ${indexes}, row_count = ${row_count}
     where id = ${id}`)
  await db.rows(sql`
    delete from backup_drill where branch_id = ${branch_id} and id <= (
      select id from backup_drill where branch_id = ${branch_id} order by id desc offset ${KEPT} limit 1)`)
}

/** The drills of a branch, the newest first. */
export const listDrills = (db: Db, branchId: string): Promise<BackupDrill[]> =>
  db.rows(sql`select ${COLUMNS} from backup_drill where branch_id = ${branchId} order by id desc limit ${KEPT}`)

/** The protected branches of a host whose last drill has failed. */
export async function countFailedDrills(db: Db, hostId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from branch b join store s on s.id = b.store_id
     where b.protected and b.deleted_at is null and s.host_id = ${hostId} and (
       select d.error is not null from backup_drill d
        where d.branch_id = b.id and d.finished_at is not null order by d.id desc limit 1)`)
  return row?.count ?? 0
}
