import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Something about roles and databases that Postgres has yet to be told. */
export type Change =
  | { readonly kind: 'create_role'; readonly name: string; readonly verifier: string | null }
  | { readonly kind: 'set_password'; readonly name: string; readonly verifier: string }
  | { readonly kind: 'drop_role'; readonly name: string }
  | { readonly kind: 'create_database'; readonly name: string; readonly owner: string }
  | { readonly kind: 'rename_database'; readonly name: string; readonly to: string }
  | { readonly kind: 'set_database_owner'; readonly name: string; readonly owner: string }
  | { readonly kind: 'drop_database'; readonly name: string }

/** A change with its number, which a branch shares with the branches that inherit the change. */
export interface ConfigChange {
  readonly id: number
  readonly change: Change
  readonly operation_id: string | null
}

/** Appends a change. Call it with the branch's row locked (`lockConfig`), so that numbers rise in the order of commits. */
export async function addChange(tx: Db, branchId: string, change: Change): Promise<void> {
  await tx.rows(sql`insert into config_change (branch_id, change) values (${branchId}, ${JSON.stringify(change)})`)
}

/** Says which operation is to tell Postgres what was appended in this transaction. */
export async function assignChanges(tx: Db, branchId: string, operationId: string): Promise<void> {
  await tx.rows(sql`
    update config_change set operation_id = ${operationId} where branch_id = ${branchId} and operation_id is null`)
}

/** What Postgres has yet to be told of a branch, in order; without what is left to operations after the one with that `seq`. */
export function listChanges(db: Db, branchId: string, seq?: number): Promise<ConfigChange[]> {
  return db.rows(sql`
    select c.id, c.change, c.operation_id from config_change c left join operation o on o.id = c.operation_id
     where c.branch_id = ${branchId} and (o.seq <= ${seq}::bigint or o.seq is null or ${seq}::bigint is null) order by c.id`)
}

/** How many changes Postgres has yet to be told of a branch. */
export async function countChanges(db: Db, branchId: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from config_change where branch_id = ${branchId}`)
  return row?.count ?? 0
}

/** Takes changes off the list that are settled. */
export async function removeChanges(tx: Db, branchId: string, ids: readonly number[]): Promise<void> {
  await tx.rows(sql`delete from config_change where branch_id = ${branchId} and id = any (${ids}::bigint[])`)
}

/** Takes earlier passwords of a role off the list: only the last one counts. */
export async function removePasswordChanges(tx: Db, branchId: string, name: string): Promise<void> {
  await tx.rows(sql`
    delete from config_change where branch_id = ${branchId} and change ->> 'kind' = 'set_password' and change ->> 'name' = ${name}`)
}
