/** A catalog that was restored from the repository of backups, with its stores. */
import { deleteBranchData, markBranchDeleted, setDefaultBranch } from './branch.ts'
import type { Db } from './catalog.ts'
import { deleteProject } from './project.ts'
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

/** A project, or one of its branches. */
export interface RestoredPart {
  readonly project_id: string
  readonly branch_id: string | null
}

/** The projects with this id or name, or the branches in them. */
export function findParts(db: Db, project: string | undefined, branch: string | undefined): Promise<RestoredPart[]> {
  return db.rows(sql`
    select p.id as project_id, b.id as branch_id
      from project p left join branch b
        on b.project_id = p.id and b.deleted_at is null and not b.is_snapshot and ${branch}::text in (b.id, b.name)
     where p.deleted_at is null and (${project}::text is null or ${project}::text in (p.id, p.name))
       and (${branch}::text is null or b.id is not null)
     order by 1, 2`)
}

/** Has an installation forget all projects and branches but these, and all webhooks. */
export async function keepOnly(tx: Db, { project_id, branch_id }: RestoredPart): Promise<void> {
  await tx.rows(sql`delete from webhook`)
  await tx.rows(sql`delete from webhook_delivery`)
  // Without a branch the second comparison is null.
  const others = sql`project_id <> ${project_id} or branch_id <> ${branch_id}::text`
  await tx.rows(sql`
    update operation set status = 'failed', error = 'not restored', finished_at = clock_timestamp(),
           updated_at = clock_timestamp()
     where finished_at is null and (${others})`)
  for (const { id } of await tx.rows<{ id: string }>(sql`select id from project where id <> ${project_id}`))
    await deleteProject(tx, id)
  if (branch_id !== null) {
    await setDefaultBranch(tx, project_id, branch_id)
    await tx.rows(sql`
      update branch set parent_id = null, parent_timestamp = null, parent_lsn = null where id = ${branch_id}`)
    await tx.rows(sql`delete from snapshot where project_id = ${project_id}`)
    await tx.rows(sql`
      update endpoint set deleted_at = clock_timestamp()
       where project_id = ${project_id} and branch_id <> ${branch_id} and deleted_at is null`)
    for (const { id } of await tx.rows<{ id: string }>(
      sql`select id from branch where project_id = ${project_id} and id <> ${branch_id} and deleted_at is null`,
    ))
      await markBranchDeleted(tx, id)
  }
  for (const { id } of await tx.rows<{ id: string }>(sql`
    select id from branch where store_id is not null and id is distinct from ${branch_id}::text
       and (${branch_id}::text is not null or project_id <> ${project_id})`))
    await deleteBranchData(tx, id)
}
