import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** `password` is encrypted; `verifier` is what Postgres and the proxy compare with. Both are null for a role that cannot log in. */
export interface Role {
  readonly branch_id: string
  readonly name: string
  readonly account_id: string
  readonly password: Buffer | null
  readonly verifier: string | null
  readonly created_at: string
  readonly updated_at: string
}

export async function insertRole(
  tx: Db,
  role: Pick<Role, 'branch_id' | 'name' | 'account_id' | 'password' | 'verifier'>,
): Promise<Role> {
  const row = await tx.row<Role>(sql`
    insert into role (branch_id, name, account_id, password, verifier)
    values (${role.branch_id}, ${role.name}, ${role.account_id}, ${role.password}, ${role.verifier}) returning *`)
  return row as Role
}

export function findRole(db: Db, branchId: string, name: string): Promise<Role | undefined> {
  return db.row(sql`select * from role where branch_id = ${branchId} and name = ${name}`)
}

export function listRoles(db: Db, branchId: string): Promise<Role[]> {
  return db.rows(sql`select * from role where branch_id = ${branchId} order by created_at, name`)
}

export interface Database {
  readonly id: number
  readonly branch_id: string
  readonly name: string
  readonly account_id: string
  readonly owner_name: string
  readonly created_at: string
  readonly updated_at: string
}

export async function insertDatabase(
  tx: Db,
  database: Pick<Database, 'branch_id' | 'name' | 'account_id' | 'owner_name'>,
): Promise<Database> {
  const row = await tx.row<Database>(sql`
    insert into database (branch_id, name, account_id, owner_name)
    values (${database.branch_id}, ${database.name}, ${database.account_id}, ${database.owner_name}) returning *`)
  return row as Database
}

export function findDatabase(db: Db, branchId: string, name: string): Promise<Database | undefined> {
  return db.row(sql`select * from database where branch_id = ${branchId} and name = ${name}`)
}

export function listDatabases(db: Db, branchId: string): Promise<Database[]> {
  return db.rows(sql`select * from database where branch_id = ${branchId} order by created_at, name`)
}

/** A child branch begins with its parent's roles and databases, as its data does. */
export async function copyRolesAndDatabases(tx: Db, parentId: string, childId: string): Promise<void> {
  await tx.rows(sql`
    insert into role (branch_id, name, account_id, password, verifier, created_at)
    select ${childId}, name, account_id, password, verifier, created_at from role where branch_id = ${parentId}`)
  await tx.rows(sql`
    insert into database (branch_id, name, account_id, owner_name, created_at)
    select ${childId}, name, account_id, owner_name, created_at from database where branch_id = ${parentId}`)
}
