import type { Branch } from './branch.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The data that a branch had at a moment, in a hidden branch, which counts as deleted (0047_snapshots.sql). */
export interface Snapshot {
  readonly id: string
  readonly account_id: string
  readonly project_id: string
  /** The hidden branch with its data. */
  readonly branch_id: string
  readonly source_branch_id: string
  readonly name: string
  /** The moment of its data: a position in the WAL, or a time. */
  readonly lsn: string | null
  readonly taken_of: string | null
  readonly expires_at: string | null
  readonly is_scheduled: boolean
  readonly created_at: string
  /** The bytes of its databases, without WAL; null until they were measured. */
  readonly logical_bytes: number | null
  /** Of the blocks that it has alone; null until they were measured. */
  readonly own_bytes: number | null
}

const SELECT = sql`
  select s.*, b.logical_bytes, w.own_bytes
    from snapshot s join branch b on b.id = s.branch_id left join store_space w on w.store_id = b.store_id`

export interface NewSnapshot extends Pick<Snapshot, 'id' | 'branch_id' | 'name' | 'expires_at' | 'is_scheduled'> {
  readonly source: Branch
  /** The store whose data it gets. */
  readonly store_id: string | null
  readonly lsn?: string | undefined
  readonly timestamp?: string | undefined
}

/** Inserts a snapshot with its hidden branch and that one's store, whose data are still to be copied. */
export async function insertSnapshot(tx: Db, snapshot: NewSnapshot): Promise<Snapshot> {
  const { id, branch_id, source, name, expires_at, is_scheduled, lsn, timestamp, store_id } = snapshot
  await tx.rows(sql`
    with store as (
      insert into store (id, branch_id, host_id, parent_id, made_from)
      values (${branch_id}, ${branch_id}, host_for(${source.id}, null), ${store_id}, 'clone'))
    insert into branch (id, account_id, project_id, parent_id, name, pending_state, deleted_at, store_id, logical_bytes,
                        is_snapshot)
    values (${branch_id}, ${source.account_id}, ${source.project_id}, ${source.id}, ${branch_id}, 'ready',
            clock_timestamp(), ${branch_id}, ${source.logical_bytes}, true)`)
  const row = await tx.row<Snapshot>(sql`
    with made as (
      insert into snapshot (id, account_id, project_id, branch_id, source_branch_id, name, lsn, taken_of, expires_at,
                            is_scheduled)
      values (${id}, ${source.account_id}, ${source.project_id}, ${branch_id}, ${source.id}, ${name}, ${lsn},
              case when ${lsn}::text is null then coalesce(${timestamp}::timestamptz, clock_timestamp()) end,
              ${expires_at}::timestamptz, ${is_scheduled}::bool)
      returning *)
    select m.*, b.logical_bytes, null::int8 as own_bytes from made m join branch b on b.id = m.branch_id`)
  return row as Snapshot
}

/** The snapshots of a project, newest first. */
export function listSnapshots(db: Db, projectId: string): Promise<Snapshot[]> {
  return db.rows(sql`${SELECT} where s.project_id = ${projectId} order by s.created_at desc, s.id`)
}

export function findSnapshot(db: Db, projectId: string, id: string): Promise<Snapshot | undefined> {
  return db.row(sql`${SELECT} where s.project_id = ${projectId} and s.id = ${id}`)
}

/** The snapshot whose data are in a branch. */
export function findSnapshotOf(db: Db, branchId: string): Promise<Snapshot | undefined> {
  return db.row(sql`${SELECT} where s.branch_id = ${branchId}`)
}

/** The hidden branch with the data of a snapshot. */
export async function snapshotBranch(db: Db, { branch_id }: Snapshot): Promise<Branch> {
  return (await db.row<Branch>(sql`select * from branch where id = ${branch_id}`)) as Branch
}

/** Changes the given attributes; `expires_at: null` removes the expiry. */
export async function updateSnapshot(
  tx: Db,
  id: string,
  changes: { name?: string | undefined; expires_at?: string | null | undefined },
): Promise<void> {
  await tx.rows(sql`
    update snapshot set name = coalesce(${changes.name}, name),
           expires_at = case when ${changes.expires_at !== undefined} then ${changes.expires_at}::timestamptz
                             else expires_at end
     where id = ${id}`)
}

/** Forgets the snapshot whose data are in a branch: what is stored of that is then left to be removed. */
export async function forgetSnapshotOf(tx: Db, branchId: string): Promise<void> {
  await tx.rows(sql`delete from snapshot where branch_id = ${branchId}`)
}

/**
 * Expired snapshots, at most 50; not the newest that was taken by a schedule which still stands.
 * @param id only this one
 */
export function listExpiredSnapshots(db: Db, id?: string): Promise<Snapshot[]> {
  return db.rows(sql`
    ${SELECT} join project p on p.id = s.project_id and p.deleted_at is null
     where s.expires_at <= statement_timestamp() and (${id}::text is null or s.id = ${id})
       and not (s.is_scheduled
                and exists (select from snapshot_schedule c join branch o on o.id = c.branch_id and o.deleted_at is null
                             where c.branch_id = s.source_branch_id)
                and not exists (select from snapshot n
                                 where n.project_id = s.project_id and n.source_branch_id = s.source_branch_id
                                   and n.is_scheduled and n.created_at > s.created_at))
     order by s.expires_at limit 50`)
}
