import type { Db } from './catalog.ts'
import { addChange } from './config_change.ts'
import { sql } from './sql.ts'

export interface Database {
  readonly id: number
  readonly branch_id: string
  readonly name: string
  readonly account_id: string
  readonly owner_name: string
  readonly created_at: string
  readonly updated_at: string
}

/** Inserts a database; the next apply_config or start creates it in Postgres. */
export async function insertDatabase(
  tx: Db,
  database: Pick<Database, 'branch_id' | 'name' | 'account_id' | 'owner_name'>,
): Promise<Database> {
  const { branch_id, name, owner_name } = database
  await addChange(tx, branch_id, { kind: 'create_database', name, owner: owner_name })
  const row = await tx.row<Database>(sql`
    insert into database (branch_id, name, account_id, owner_name)
    values (${branch_id}, ${name}, ${database.account_id}, ${owner_name}) returning *`)
  return row as Database
}

export function findDatabase(db: Db, branchId: string, name: string): Promise<Database | undefined> {
  return db.row(sql`select * from database where branch_id = ${branchId} and name = ${name}`)
}

export function listDatabases(db: Db, branchId: string): Promise<Database[]> {
  return db.rows(sql`select * from database where branch_id = ${branchId} order by created_at, name`)
}

/** Changes the name or owner of a database; the next apply_config or start does so in Postgres. */
export async function updateDatabase(tx: Db, database: Database, name: string, owner: string): Promise<Database> {
  const { branch_id } = database
  if (name !== database.name) await addChange(tx, branch_id, { kind: 'rename_database', name: database.name, to: name })
  if (owner !== database.owner_name) await addChange(tx, branch_id, { kind: 'set_database_owner', name, owner })
  const row = await tx.row<Database>(sql`
    update database set name = ${name}, owner_name = ${owner}, updated_at = clock_timestamp()
     where id = ${database.id} returning *`)
  return row as Database
}

/** Removes a database with all its data; Postgres drops it at the next apply_config or start. */
export async function deleteDatabase(tx: Db, { id, branch_id, name }: Database): Promise<void> {
  await addChange(tx, branch_id, { kind: 'drop_database', name })
  await tx.rows(sql`delete from database where id = ${id}`)
}
