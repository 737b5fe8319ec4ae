/*
 * A deleted branch keeps its data, roles and databases, and its endpoint, until its recovery ends:
 *
 *   branch ──keepForRecovery──▶ deleted, recoverable ──recoverBranch──▶ branch
 *                                      └──────endRecovery──▶ deleted, its data is removed
 */
import type { Branch } from './branch.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Why a branch was deleted: by a request, or since it had expired. */
export type DeletionMethod = NonNullable<Branch['deletion_method']>

/** For how long a deleted branch can be recovered, and how many branches of its project at most. */
export interface RecoveryLimits {
  readonly hours: number
  readonly most: number
}

/**
 * Lets a branch that the transaction deletes be recovered, with its endpoint. Where its project has too many such
 * branches, the recovery of the one deleted first is over.
 */
export async function keepForRecovery(
  tx: Db,
  branch: Branch,
  { hours, most }: RecoveryLimits,
  method: DeletionMethod,
): Promise<void> {
  await tx.rows(sql`
    update branch set recoverable_until = clock_timestamp() + make_interval(hours => ${hours}),
           deletion_method = ${method} where id = ${branch.id}`)
  await tx.rows(sql`
    update branch set recoverable_until = clock_timestamp()
     where id in (select id from branch where project_id = ${branch.project_id} and recoverable_until is not null
                   order by recoverable_until desc offset ${most})`)
  await tx.rows(sql`
    update endpoint set recoverable = true where branch_id = ${branch.id} and deleted_at is null`)
}

/** A deleted branch of a project that can be recovered. */
export function findRecoverable(db: Db, projectId: string, id: string): Promise<Branch | undefined> {
  return db.row(sql`
    select * from branch where id = ${id} and project_id = ${projectId} and recoverable_until is not null`)
}

/** Takes the deletion of a branch back, with that of its endpoint. It expires no more, and
 * its next start applies what the project's settings have become. */
export async function recoverBranch(tx: Db, { id, parent_id }: Branch): Promise<Branch> {
  const row = await tx.row<Branch>(sql`
    update branch set deleted_at = null, recoverable_until = null, deletion_method = null, expires_at = null,
           ttl_seconds = null,
           config_version = config_version + 1,
           parent_id = (select id from branch where id = ${parent_id} and deleted_at is null),
           updated_at = clock_timestamp()
     where id = ${id} returning *`)
  await tx.rows(sql`
    update endpoint set deleted_at = null, recoverable = false, updated_at = clock_timestamp()
     where branch_id = ${id} and recoverable`)
  return row as Branch
}

/** Ends the recovery of a deleted branch. Returns false if the branch was recovered or its data removed meanwhile. */
export async function endRecovery(tx: Db, id: string): Promise<boolean> {
  const ended = await tx.rows(sql`
    update branch set recoverable_until = null
     where id = ${id} and deleted_at is not null and store_id is not null returning 1`)
  if (ended.length === 0) return false
  await tx.rows(sql`update endpoint set recoverable = false where branch_id = ${id} and recoverable`)
  return true
}

/** Deleted branches with stored data that no operation removes; not the hidden ones of snapshots. */
const LEFT_OVER = sql`
  branch b join store s on s.id = b.store_id
   where b.deleted_at is not null
     and not exists (select from snapshot where branch_id = b.id)
     and not exists (select 1 from operation o
                      where o.project_id = b.project_id and o.finished_at is null
                        and (o.action = 'delete_tenant' or o.action = 'delete_timeline' and o.branch_id = b.id))`

/**
 * Deleted branches with data stored on a host that is to be removed, unless an operation does so, `limit`
 * at most. While the disk of the host is short, also those that could be recovered for the shortest time: up to
 * `early` of them.
 */
export function listLeftovers(
  db: Db,
  hostId: string,
  { limit, early }: { readonly limit: number; readonly early: number },
): Promise<Branch[]> {
  return db.rows(sql`
    (select b.* from ${LEFT_OVER} and s.host_id = ${hostId}
        and coalesce(b.recoverable_until, '-infinity') <= clock_timestamp()
      order by coalesce(b.recoverable_until, '-infinity') limit ${limit})
    union all
    (select b.* from ${LEFT_OVER} and s.host_id = ${hostId}
        and coalesce(b.recoverable_until, '-infinity') > clock_timestamp()
        and exists (select from host where id = ${hostId} and disk_short)
      order by coalesce(b.recoverable_until, '-infinity') limit ${early})`)
}
