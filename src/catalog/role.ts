import type { Db } from './catalog.ts'
import { addChange, removePasswordChanges } from './config_change.ts'
import { sql } from './sql.ts'

/**
 * `password` is encrypted; null if Neap does not know it (set by SQL) or there is none. `verifier` is what Postgres
 * stores; null without a password.
 */
export interface Role {
  readonly branch_id: string
  readonly name: string
  readonly account_id: string
  readonly login: boolean
  readonly password: Buffer | null
  readonly verifier: string | null
  readonly created_at: string
  readonly updated_at: string
}

/** Inserts a role; the next apply_config or start creates it in Postgres. A role without a verifier cannot log in. */
export async function insertRole(
  tx: Db,
  role: Pick<Role, 'branch_id' | 'name' | 'account_id' | 'password' | 'verifier'>,
): Promise<Role> {
  await addChange(tx, role.branch_id, { kind: 'create_role', name: role.name, verifier: role.verifier })
  const row = await tx.row<Role>(sql`
    insert into role (branch_id, name, account_id, login, password, verifier)
    values (${role.branch_id}, ${role.name}, ${role.account_id}, ${role.verifier !== null}, ${role.password},
            ${role.verifier})
    returning *`)
  return row as Role
}

export function findRole(db: Db, branchId: string, name: string): Promise<Role | undefined> {
  return db.row(sql`select * from role where branch_id = ${branchId} and name = ${name}`)
}

export function listRoles(db: Db, branchId: string): Promise<Role[]> {
  return db.rows(sql`select * from role where branch_id = ${branchId} order by created_at, name`)
}

/** Changes the password of a role; the next apply_config or start does so in Postgres. */
export async function setRolePassword(
  tx: Db,
  { branch_id, name }: Role,
  { password, verifier }: { password: Buffer; verifier: string },
): Promise<Role> {
  await removePasswordChanges(tx, branch_id, name)
  await addChange(tx, branch_id, { kind: 'set_password', name, verifier })
  const row = await tx.row<Role>(sql`
    update role set password = ${password}, verifier = ${verifier}, updated_at = clock_timestamp()
     where branch_id = ${branch_id} and name = ${name} returning *`)
  return row as Role
}

/** Removes a role; Postgres drops it at the next apply_config or start. It must own no database. */
export async function deleteRole(tx: Db, { branch_id, name }: Role): Promise<void> {
  await addChange(tx, branch_id, { kind: 'drop_role', name })
  await tx.rows(sql`delete from role where branch_id = ${branch_id} and name = ${name}`)
}
