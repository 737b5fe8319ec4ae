import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A change of roles or databases that is still to be applied to Postgres. */
export type Change =
  | { readonly kind: 'create_role'; readonly name: string; readonly verifier: string | null }
  | { readonly kind: 'set_password'; readonly name: string; readonly verifier: string | null }
  | { readonly kind: 'drop_role'; readonly name: string }
  | { readonly kind: 'create_database'; readonly name: string; readonly owner: string }
  | { readonly kind: 'rename_database'; readonly name: string; readonly to: string }
  | { readonly kind: 'set_database_owner'; readonly name: string; readonly owner: string }
  | { readonly kind: 'drop_database'; readonly name: string }

/** A change with its number, which is the same in branches that inherit it. */
export interface ConfigChange {
  readonly id: number
  readonly change: Change
  readonly operation_id: string | null
}

/** Appends a change. Call with the branch's row locked (`lockConfig`), so that numbers follow commit order. */
export async function addChange(tx: Db, branchId: string, change: Change): Promise<void> {
  await tx.rows(sql`insert into config_change (branch_id, change) values (${branchId}, ${JSON.stringify(change)})`)
}

/** Assigns the changes appended in this transaction to the operation that is to apply them. */
export async function assignChanges(tx: Db, branchId: string, operationId: string): Promise<void> {
  await tx.rows(sql`
    update config_change set operation_id = ${operationId} where branch_id = ${branchId} and operation_id is null`)
}

/** The changes of a branch still to be applied, in order; with `seq`, without those of later operations. */
export function listChanges(db: Db, branchId: string, seq?: number): Promise<ConfigChange[]> {
  return db.rows(sql`
    select c.id, c.change, c.operation_id from config_change c left join operation o on o.id = c.operation_id
     where c.branch_id = ${branchId} and (o.seq <= ${seq}::bigint or o.seq is null or ${seq}::bigint is null)
     order by c.id`)
}

/** The number of changes of a branch still to be applied. */
export async function countChanges(db: Db, branchId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from config_change where branch_id = ${branchId}`)
  return row?.count ?? 0
}

/** Removes settled changes. */
export async function removeChanges(tx: Db, branchId: string, ids: readonly number[]): Promise<void> {
  await tx.rows(sql`delete from config_change where branch_id = ${branchId} and id = any (${ids}::bigint[])`)
}

/** Removes earlier password changes of a role: only the last one counts. */
export async function removePasswordChanges(tx: Db, branchId: string, name: string): Promise<void> {
  await tx.rows(sql`
    delete from config_change
     where branch_id = ${branchId} and change ->> 'kind' = 'set_password' and change ->> 'name' = ${name}`)
}
