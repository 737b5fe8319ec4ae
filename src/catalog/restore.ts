/*
 * What a restore does to the catalog. A copy of the source is a branch of its own first, which nobody sees unless it is to keep the
 * old data under a name. Then the two exchange their data, with roles and databases, at one stroke:
 *
 *   copy (restores → branch) ──exchanged──▶ holds the branch's old data, kept under its name or about to be removed
 *                            └──abandoned─▶ deleted, and the branch is what it was
 */
import { type Branch, setDefaultBranch } from './branch.ts'
import type { Catalog, Db } from './catalog.ts'
import { exchangeConfig } from './exchange_config.ts'
import { sql } from './sql.ts'

/** The row of a copy of `source` that is to become the data of `branch`. Without a name nobody ever sees it. */
export async function insertCopy(
  tx: Db,
  { id, source, branch, name }: { id: string; source: Branch; branch: Branch; name: string | undefined },
): Promise<Branch> {
  const row = await tx.row<Branch>(sql`
    insert into branch (id, account_id, project_id, parent_id, name, pending_state, restores, deleted_at)
    values (${id}, ${branch.account_id}, ${branch.project_id}, ${source.id}, ${name ?? id}, 'ready', ${branch.id},
            case when ${name === undefined} then clock_timestamp() end)
    returning *`)
  return row as Branch
}

/** Gives each of the two the other's data, roles and databases. Nothing may run on either. */
export async function exchangeData(tx: Db, branch: Branch, copy: Branch): Promise<void> {
  await tx.rows(sql`
    update branch b set store_id = other.store_id, store_number = other.store_number from branch other
     where b.id = any (${[branch.id, copy.id]}::text[]) and other.id = any (${[branch.id, copy.id]}::text[]) and b.id <> other.id`)
  await exchangeConfig(tx, branch, copy)
}

/**
 * Writes down where a restored branch comes from now. What is kept of it takes its old place, and the children that it had when the
 * restore was asked for: those have the lower numbers.
 */
export async function moveInTree(tx: Db, branch: Branch, copy: Branch, sourceId: string): Promise<void> {
  const itself = branch.id === sourceId
  if (copy.deleted_at === null) {
    await tx.rows(sql`
      update branch set parent_id = ${copy.id} where parent_id = ${branch.id} and id <> ${copy.id} and number < ${copy.number}`)
  }
  await tx.rows(sql`
    update branch set parent_id = ${branch.parent_id}, restores = null, current_state = 'ready', pending_state = null,
           state_changed_at = clock_timestamp(), updated_at = clock_timestamp() where id = ${copy.id}`)
  await tx.rows(sql`
    update branch set parent_id = ${itself ? copy.id : sourceId}, last_reset_at = clock_timestamp(), updated_at = clock_timestamp()
     where id = ${branch.id}`)
}

/** Gives a copy up that will not become its branch's data any more; what is stored of it is swept up. */
export async function abandonCopy(tx: Db, id: string): Promise<void> {
  const copy = await tx.row<Branch>(sql`select * from branch where id = ${id} and restores is not null`)
  if (!copy) return
  if (copy.is_default) await setDefaultBranch(tx, copy.project_id, copy.restores as string)
  await tx.rows(sql`
    update branch set deleted_at = coalesce(deleted_at, clock_timestamp()), restores = null, pending_state = null,
           updated_at = clock_timestamp() where id = ${id}`)
  await tx.rows(sql`update endpoint set deleted_at = clock_timestamp() where branch_id = ${id} and deleted_at is null`)
}

/** Gives up the copies whose restores were cancelled before they began. */
export async function abandonLostCopies(catalog: Catalog): Promise<void> {
  const lost = await catalog.rows<{ id: string }>(sql`
    select id from branch b where restores is not null and deleted_at is null
       and not exists (select 1 from operation o
                        where o.project_id = b.project_id and o.branch_id = b.restores and o.finished_at is null
                          and o.action = 'create_branch' and o.input ->> 'copy_id' = b.id)`)
  for (const { id } of lost) await catalog.transaction((tx) => abandonCopy(tx, id))
}
