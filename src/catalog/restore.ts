/*
 * The catalog's part of a restore. The copy of the source is first a branch of its own, hidden unless it is to keep the
 * old data under a name. Then the two branches exchange data, roles and databases in one transaction:
 *
 *   copy (restores → branch) ──exchanged──▶ has the branch's old data, kept under its name or about to be removed
 *                            └──abandoned─▶ deleted; the branch is unchanged
 */
import { type Branch, setDefaultBranch } from './branch.ts'
import type { Catalog, Db } from './catalog.ts'
import { exchangeConfig } from './exchange_config.ts'
import { sql } from './sql.ts'
import { exchangeStores } from './store.ts'

export interface NewCopy {
  readonly id: string
  readonly source: Branch
  readonly branch: Branch
  readonly name: string | undefined
  /** The store whose data it gets, if not the source's. */
  readonly storeId?: string | null | undefined
}

/** Inserts a copy of `source` that is to become the data of `branch`. Without a name it is hidden. */
export async function insertCopy(
  tx: Db,
  { id, source, branch, name, storeId = source.store_id }: NewCopy,
): Promise<Branch> {
  const row = await tx.row<Branch>(sql`
    with store as (
      insert into store (id, branch_id, host_id, parent_id, made_from)
      values (${id}, ${id}, host_for(${source.id}, null), ${storeId}, 'clone'))
    insert into branch (id, account_id, project_id, parent_id, name, pending_state, restores, deleted_at, store_id)
    values (${id}, ${branch.account_id}, ${branch.project_id}, ${source.id}, ${name ?? id}, 'ready', ${branch.id},
            case when ${name === undefined} then clock_timestamp() end, ${id})
    returning *`)
  return row as Branch
}

/** Exchanges the data, roles and databases of the two branches. No compute may run on either. */
export async function exchangeData(tx: Db, branch: Branch, copy: Branch): Promise<void> {
  await tx.rows(sql`update store set previous_id = ${branch.store_id} where id = ${copy.store_id}`)
  await exchangeStores(tx, branch.id, copy.id)
  await exchangeConfig(tx, branch, copy)
}

/**
 * Records the new parent of a restored branch. The copy with its old data takes the branch's former parent and, if it
 * is kept, the children that the branch had when the restore was requested: those with lower numbers than the copy.
 */
export async function moveInTree(tx: Db, branch: Branch, copy: Branch, sourceId: string): Promise<void> {
  const itself = branch.id === sourceId
  if (copy.deleted_at === null) {
    await tx.rows(sql`
      update branch set parent_id = ${copy.id}
       where parent_id = ${branch.id} and id <> ${copy.id} and number < ${copy.number}`)
  }
  await tx.rows(sql`
    update branch set parent_id = ${branch.parent_id}, restores = null, current_state = 'ready', pending_state = null,
           state_changed_at = clock_timestamp(), updated_at = clock_timestamp() where id = ${copy.id}`)
  // The hidden branch of a snapshot, which counts as deleted, is no parent.
  await tx.rows(sql`
    update branch set parent_id = (
             select id from branch p where id = ${itself ? copy.id : sourceId} and p.deleted_at is null),
           last_reset_at = clock_timestamp(), updated_at = clock_timestamp()
     where id = ${branch.id}`)
}

/** Abandons a copy that will not become its branch's data; the sweep loop removes its stored data. */
export async function abandonCopy(tx: Db, id: string): Promise<void> {
  const copy = await tx.row<Branch>(sql`select * from branch where id = ${id} and restores is not null`)
  if (!copy) return
  if (copy.is_default) await setDefaultBranch(tx, copy.project_id, copy.restores as string)
  await tx.rows(sql`
    update branch set deleted_at = coalesce(deleted_at, clock_timestamp()), restores = null, pending_state = null,
           updated_at = clock_timestamp() where id = ${id}`)
  await tx.rows(sql`update endpoint set deleted_at = clock_timestamp() where branch_id = ${id} and deleted_at is null`)
}

/** Abandons copies whose restores were cancelled before they began. */
export async function abandonLostCopies(catalog: Catalog): Promise<void> {
  const lost = await catalog.rows<{ id: string }>(sql`
    select id from branch b where restores is not null and deleted_at is null
       and not exists (select 1 from operation o
                        where o.project_id = b.project_id and o.branch_id = b.restores and o.finished_at is null
                          and o.action = 'create_branch' and o.input ->> 'copy_id' = b.id)`)
  for (const { id } of lost) await catalog.transaction((tx) => abandonCopy(tx, id))
}
