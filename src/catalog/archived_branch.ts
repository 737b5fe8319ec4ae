import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** When a branch is archived. */
export interface ArchiveRule {
  /** So old it is at least. */
  readonly ageSeconds: number
  /** So long it was not used. */
  readonly unusedSeconds: number
}

/** A branch that may be due to be archived. */
export interface ArchiveCandidate {
  readonly id: string
  readonly account_id: string
  readonly project_id: string
  readonly store_id: string
}

/** The branches on a host that are to be looked at, `limit` at most. */
export function listArchiveCandidates(db: Db, hostId: string, limit: number): Promise<ArchiveCandidate[]> {
  return db.rows(sql`
    select b.id, b.account_id, b.project_id, s.id as store_id
      from store s join branch b on b.id = s.branch_id
     where s.host_id = ${hostId} and s.state = 'ready' and s.archive_at <= clock_timestamp()
     order by s.archive_at limit ${limit}`)
}

/** The branches of a host that are being archived. */
export async function countArchiving(db: Db, hostId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from operation
     where host_id = ${hostId} and action = 'timeline_archive' and finished_at is null`)
  return row?.count ?? 0
}

/** The seconds until a branch that nothing needs may be looked at again, where its use does not tell. */
const LOOK_SECONDS = 86_400

/**
 * Whether a branch is to be archived, also where stores share blocks (`always`), or only where they do not
 * (`unshared`): archiving frees no block that another store has. It is looked at again later. The project's row must be
 * locked.
 *
 * Not archived is what others need (stores that were made of it, whose history goes on in it; a copy of an unfinished
 * restore), what is asked for soon (protected, with a schedule of snapshots, an active endpoint).
 */
export async function whenToBeArchived(
  tx: Db,
  { id, store_id }: ArchiveCandidate,
  { ageSeconds, unusedSeconds }: ArchiveRule,
): Promise<'always' | 'unshared' | undefined> {
  const row = await tx.row<{ due: boolean; shares: boolean }>(sql`
    with looked as (
      select greatest(b.created_at + make_interval(secs => ${ageSeconds}),
                      greatest(b.state_changed_at, b.last_reset_at, e.last_active, e.started_at, e.suspended_at)
                        + make_interval(secs => ${unusedSeconds})) as due_at,
             b.current_state <> 'ready' or coalesce(b.pending_state, 'archived') <> 'archived'
               or b.deleted_at is not null or b.protected
               or b.restores is not null or coalesce(b.masking_state, 'anonymized') <> 'anonymized'
               or b.is_snapshot or e.current_state = 'active' or e.pending_state is not null
               or exists (select from store c where c.parent_id = s.id)
               or exists (select from snapshot_schedule where branch_id = b.id)
               or exists (select from compute c where c.store_id = s.id and c.ended_at is null)
               or exists (select from operation_hold h where h.project_id = b.project_id
                           and (h.resource = b.id or h.resource = b.project_id and h.exclusive)) as is_kept,
             exists (select from store p where p.id = s.parent_id)
               or exists (select from base where store_id = s.id) as shares
        from branch b join store s on s.id = b.store_id
        left join endpoint e on e.branch_id = b.id and e.deleted_at is null
       where b.id = ${id} and s.id = ${store_id})
    update store s
       set archive_at = case when due_at > clock_timestamp() then due_at
                             else clock_timestamp() + make_interval(secs => ${Math.min(LOOK_SECONDS, ageSeconds)}) end
      from looked where s.id = ${store_id}
    returning due_at <= clock_timestamp() and not is_kept as due, shares`)
  if (!row?.due) return undefined
  return row.shares ? 'unshared' : 'always'
}

/** Of these branches those that are archived, or are being so, and that no operation is yet to bring back. */
export function listArchived(db: Db, ids: readonly string[]): Promise<ArchivedBranch[]> {
  return db.rows(sql`
    select id, account_id, project_id from branch b
     where id = any (${ids}::text[]) and (current_state = 'archived' or pending_state = 'archived')
       and not exists (select from operation o
                        where o.project_id = b.project_id and o.branch_id = b.id and o.finished_at is null
                          and o.action = 'timeline_unarchive')`)
}

type ArchivedBranch = Omit<ArchiveCandidate, 'store_id'>

/** Records that a branch is about to be archived. */
export async function setArchivePending(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`update branch set pending_state = 'archived' where id = ${id}`)
}

/** Records whether the data of a branch are archived. */
export async function setBranchArchived(tx: Db, id: string, isArchived: boolean): Promise<void> {
  await tx.rows(sql`
    update branch set current_state = case when ${isArchived} then 'archived' else 'ready' end, pending_state = null,
           state_changed_at = case when current_state = case when ${isArchived} then 'archived' else 'ready' end
                                   then state_changed_at else clock_timestamp() end
     where id = ${id} and current_state <> 'init'`)
}
