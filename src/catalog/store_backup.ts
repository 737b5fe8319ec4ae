/** The repository of backups, as far as it is known of each store. */
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A base of a store. */
interface NewestBase {
  readonly number: number
  readonly started_at: string
  readonly made_at: string
  readonly lsn: string
  readonly segment: string
}

/** A store that is to be compared with the repository. */
export interface DueStore {
  readonly id: string
  readonly branch_id: string
  readonly project_id: string
  readonly number: number
  readonly due_at: string
  /** Its newest backup in this series, with the WAL after it that the repository has; null before the first. */
  readonly backup: {
    readonly segment: string
    /** The segment from which on the repository has, or is to have, all WAL; of an earlier backup. */
    readonly first_segment: string
    readonly pushed_segment: string | null
    readonly pushed_lsn: string | null
  } | null
  /** Its newest base, unless that is too old, or the newest backup is of it. */
  readonly base: NewestBase | null
}

/** A base of this age is not backed up any more: another is made. */
const BASE_AGE = sql`interval '1 hour'`
/** WAL of less is not worth a backup: it may be that of a start and a stop. */
const LEAST_WAL_BYTES = 65_536

/** Whether a store `s` of a branch `b` is backed up: not before its data were made, removed or masked as was asked. */
const IS_BACKED_UP = sql`
  s.state = 'ready' and b.current_state <> 'init' and coalesce(b.masking_state, 'anonymized') = 'anonymized'`

/** Whether a backup has the timeline of the one before it in its series: the first eight digits of a segment. */
const GOES_ON = sql`
  store_backup.series = excluded.series and left(store_backup.segment, 8) = left(excluded.segment, 8)`

/** The parts of the work: to make a backup of a store, which may take hours, and to write the WAL after its last. */
export type BackupWork = 'backup' | 'wal'

interface DueRule {
  readonly hostId: string
  readonly series: string
  /** The age at which a backup of a store that was written to is followed by another. */
  readonly hours: number
  /** Projects whose stores are left out. */
  readonly without: readonly string[]
  readonly limit: number
}

/** The stores of a host for which there is work of a kind, longest due first. */
export function listDueStores(
  db: Db,
  work: BackupWork,
  { hostId, series, hours, without, limit }: DueRule,
): Promise<DueStore[]> {
  // Of a store that has yet to start, or whose WAL has a gap, there is no WAL to write: its position is not known.
  const condition =
    work === 'backup'
      ? sql`s.backup_due_at is not null
            and (k.store_id is null
                 or (k.is_due or k.made_at < clock_timestamp() - make_interval(hours => ${hours}))
                    and (k.lsn = '0/0' or k.pushed_lsn - k.lsn > ${LEAST_WAL_BYTES}::numeric))`
      : sql`s.backup_due_at <= clock_timestamp() and k.lsn <> '0/0'`
  return db.rows(sql`
    select s.id, s.branch_id, b.project_id, s.number, coalesce(s.backup_due_at, s.created_at) as due_at,
           case when k.store_id is not null then jsonb_build_object(
             'segment', k.segment, 'first_segment', k.first_segment,
             'pushed_segment', k.pushed_segment, 'pushed_lsn', k.pushed_lsn::text) end as backup,
           (select jsonb_build_object('number', a.number, 'started_at', a.started_at, 'made_at', a.made_at,
                                      'lsn', a.lsn::text, 'segment', a.segment)
              from base a
             where a.store_id = s.id and a.made_at > clock_timestamp() - ${BASE_AGE}
               and a.made_at > coalesce(k.made_at, '-infinity')
             order by a.number desc limit 1) as base
      from store s join branch b on b.store_id = s.id
      left join store_backup k on k.store_id = s.id and k.series = ${series}
     where s.host_id = ${hostId} and ${IS_BACKED_UP} and ${condition}
       and b.project_id <> all (${without}::text[])
     order by s.backup_due_at limit ${limit}`)
}

/** Records why a store could not be backed up. */
export async function setBackupError(db: Db, storeId: string, error: string): Promise<void> {
  await db.rows(sql`update store set backup_error = ${error} where id = ${storeId}`)
}

/** Has a store backed up anew, of a base that is yet to be made: WAL is gone that the repository does not have. */
export async function requireBackup(db: Db, storeId: string): Promise<void> {
  await db.rows(sql`
    update store_backup set is_due = true, lsn = '0/0', made_at = clock_timestamp() where store_id = ${storeId}`)
}

/** Gives up WAL from before the newest backup, which is gone: moments before that are lost. */
export async function skipLostWal(db: Db, storeId: string): Promise<void> {
  await db.rows(sql`
    update store_backup set first_segment = segment, pushed_segment = null, pushed_lsn = null
     where store_id = ${storeId}`)
}

/** Records a new backup of a store. The WAL goes on from the backup before, unless the timeline is another. */
export async function recordBackup(
  db: Db,
  storeId: string,
  backup: {
    readonly series: string
    readonly label: string
    readonly started_at: string
    readonly made_at: string
    readonly lsn: string
    readonly segment: string
    readonly bytes: number
    readonly stored_bytes: number
  },
): Promise<void> {
  const { series, label, started_at, made_at, lsn, segment, bytes, stored_bytes } = backup
  await db.rows(sql`
    insert into store_backup (store_id, series, label, started_at, made_at, lsn, segment, first_segment, bytes,
                              stored_bytes)
    select id, ${series}, ${label}, ${started_at}::timestamptz, ${made_at}::timestamptz, ${lsn}::pg_lsn, ${segment},
           ${segment}, ${bytes}, ${stored_bytes}
      from store where id = ${storeId}
    on conflict (store_id) do update
       set series = excluded.series, label = excluded.label, started_at = excluded.started_at,
           made_at = excluded.made_at, lsn = excluded.lsn, segment = excluded.segment, bytes = excluded.bytes,
           stored_bytes = excluded.stored_bytes, is_due = false,
           first_segment = case when ${GOES_ON} then store_backup.first_segment else excluded.segment end,
           pushed_segment = case when ${GOES_ON} then store_backup.pushed_segment end,
           pushed_lsn = null, pushed_at = null`)
}

/**
 * Records the WAL of a store that the repository has. A store without a compute is due no more once that is complete,
 * unless another backup is to be made of it, which none is if it was not written to since the last. Returns false, and
 * has the end of its WAL written again, if the repository is another one by now, or had later WAL: a worker that was
 * frozen may have replaced it.
 */
export async function recordPushed(
  db: Db,
  store: Pick<DueStore, 'id' | 'due_at'> & { readonly series: string },
  pushed: { readonly segment: string | null; readonly lsn: string | null; readonly isWhole: boolean },
  everySeconds: number,
): Promise<boolean> {
  const { segment, lsn, isWhole } = pushed
  const row = await db.row<{ is_recorded: boolean }>(sql`
    with backup as (
      update store_backup k
         set pushed_segment = ${segment}, pushed_lsn = ${lsn}::pg_lsn,
             pushed_at = case when ${isWhole} then ${store.due_at}::timestamptz else pushed_at end,
             is_due = is_due and not (${isWhole} and ${lsn}::pg_lsn - lsn <= ${LEAST_WAL_BYTES}::numeric
                                      and exists (select from store where id = ${store.id}
                                                     and backup_due_at = ${store.due_at}::timestamptz))
       where store_id = ${store.id} and series = ${store.series}
         and coalesce(pushed_lsn, '0/0') <= coalesce(${lsn}::pg_lsn, 'FFFFFFFF/FFFFFFFF') returning is_due),
    replaced as (
      update store_backup set pushed_lsn = null where store_id = ${store.id} and not exists (select from backup)),
    due as (
      update store s
         set backup_error = case when exists (select from backup where is_due) then s.backup_error end,
             backup_due_at = case
               when not ${isWhole} then clock_timestamp()
               when not exists (select from backup) or exists (select from backup where is_due)
                    or exists (select from compute where store_id = s.id and ended_at is null)
               then clock_timestamp() + make_interval(secs => ${everySeconds})
             end
       where s.id = ${store.id}
         and (s.backup_due_at = ${store.due_at}::timestamptz or not exists (select from backup)))
    select exists (select from backup) as is_recorded`)
  return row?.is_recorded ?? false
}

/** Records that the repository has a store completely until its next start, after which another backup is due. */
export async function awaitStart(db: Db, { id, due_at }: Pick<DueStore, 'id' | 'due_at'>): Promise<void> {
  await db.rows(sql`
    update store_backup set is_due = true, pushed_lsn = lsn, lsn = '0/0', pushed_at = ${due_at}::timestamptz
     where store_id = ${id} and lsn <> '0/0'`)
  await db.rows(sql`
    update store s
       set backup_error = null,
           backup_due_at = case when exists (select from compute where store_id = s.id and ended_at is null)
                                then clock_timestamp() end
     where id = ${id} and backup_due_at = ${due_at}::timestamptz`)
}

/** Has stores compared now, and another backup made of each that was written to since the last; archived ones rest. */
export async function requestBackups(db: Db): Promise<void> {
  await db.rows(sql`
    with wanted as (
      update store s set backup_due_at = clock_timestamp(), backup_error = null
       where s.state = 'ready'
         and not exists (select from branch b where b.id = s.branch_id and b.current_state = 'archived')
      returning id)
    update store_backup set is_due = true where store_id in (select id from wanted)`)
}

/** Has stores compared with a repository that is new to them, and forgets the backups in another one. */
export async function beginBackups(db: Db, series: string): Promise<void> {
  await forgetBackups(db, series)
  await db.rows(sql`
    update store s set backup_due_at = clock_timestamp(), backup_error = null
     where not exists (select from store_backup where store_id = s.id and series = ${series})`)
}

/** Forgets all backups but those of one series, and the drills that were asked for. */
export async function forgetBackups(db: Db, series: string | null): Promise<void> {
  await db.rows(sql`delete from store_backup where series is distinct from ${series}`)
  if (series === null) await db.rows(sql`delete from backup_drill where finished_at is null`)
}

/** A store beside its newest backup. */
export interface StoreBackup {
  readonly store_id: string
  readonly project_id: string
  readonly branch_id: string
  readonly branch_name: string
  /** Null before there is a backup. */
  readonly label: string | null
  readonly made_at: string | null
  /** Commits until then are in the repository; null before there is a backup. */
  readonly pushed_at: string | null
  readonly bytes: number | null
  readonly stored_bytes: number | null
  /** Not all that it has is known to be there. */
  readonly is_behind: boolean
  /** It has no backup yet, or another was asked for. */
  readonly is_due: boolean
  readonly error: string | null
}

const STORE_BACKUP = sql`
  s.id as store_id, b.project_id, b.id as branch_id, b.name as branch_name, k.label, k.made_at, k.pushed_at, k.bytes,
  k.stored_bytes, s.backup_due_at is not null as is_behind,
  s.backup_due_at is not null and coalesce(k.is_due or k.pushed_at is null, true) as is_due, s.backup_error as error`

/** The stores of branches beside their newest backups in a series. */
export function listStoreBackups(db: Db, series: string): Promise<StoreBackup[]> {
  return db.rows(sql`
    select ${STORE_BACKUP} from store s join branch b on b.store_id = s.id
      left join store_backup k on k.store_id = s.id and k.series = ${series}
     where ${IS_BACKED_UP} order by b.project_id, s.number`)
}

/** The store of a branch beside its newest backup. */
export function findBranchBackup(db: Db, branchId: string): Promise<StoreBackup | undefined> {
  return db.row(sql`
    select ${STORE_BACKUP} from store s join branch b on b.store_id = s.id
      left join store_backup k on k.store_id = s.id
     where b.id = ${branchId}`)
}

/** The stores of a host that were to be compared with the repository more than a minute ago. */
export async function countBehind(db: Db, hostId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from store s join branch b on b.store_id = s.id
     where s.host_id = ${hostId} and ${IS_BACKED_UP} and s.backup_due_at < clock_timestamp() - interval '1 minute'`)
  return row?.count ?? 0
}
