import type { Branch } from './branch.ts'
import { lockConfig } from './branch_config.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/**
 * Exchanges the roles and databases of a branch and of the copy whose data it gets. Changes requested after the restore
 * was requested apply to the restored branch and stay with it; they have not been applied to Postgres yet.
 */
export async function exchangeConfig(tx: Db, branch: Branch, copy: Branch): Promise<void> {
  await lockConfig(tx, branch.id)
  await exchangeRoles(tx, branch.id, copy)
  await exchangeDatabases(tx, branch.id, copy)
  await exchangeChanges(tx, branch.id, copy)
  await tx.rows(sql`
    update branch b set config_version = b.config_version + 1, applied_version = 0, noted = other.noted
      from branch other
     where b.id = any (${[branch.id, copy.id]}::text[]) and other.id = any (${[branch.id, copy.id]}::text[])
       and b.id <> other.id`)
}

/** The names of the roles or databases that changes requested after the copy was made are about. */
const changedSince = (branchId: string, copy: Branch) => sql`
  select change ->> 'name' from config_change where branch_id = ${branchId} and created_at > ${copy.created_at}`

// Rows are moved under temporary keys that cannot collide: names of over 63 bytes, negative numbers.

async function exchangeRoles(tx: Db, branchId: string, copy: Branch): Promise<void> {
  await tx.rows(sql`
    delete from role where branch_id = ${copy.id} and name in (
      ${changedSince(branchId, copy)} and change ->> 'kind' in ('create_role', 'drop_role'))`)
  await tx.rows(sql`
    update role set branch_id = ${copy.id}, name = repeat(' ', 64) || name
     where branch_id = ${branchId} and name not in (
      ${changedSince(branchId, copy)} and change ->> 'kind' = 'create_role')`)
  await tx.rows(sql`update role set branch_id = ${branchId} where branch_id = ${copy.id} and octet_length(name) <= 63`)
  await tx.rows(sql`update role set name = substr(name, 65) where branch_id = ${copy.id}`)
  await tx.rows(sql`
    update role r set password = given.password, verifier = given.verifier, updated_at = given.updated_at
      from role given
     where r.branch_id = ${branchId} and given.branch_id = ${copy.id} and r.name = given.name and r.name in (
       ${changedSince(branchId, copy)} and change ->> 'kind' = 'set_password')`)
}

async function exchangeDatabases(tx: Db, branchId: string, copy: Branch): Promise<void> {
  await tx.rows(sql`
    delete from database where branch_id = ${copy.id} and name in (
      ${changedSince(branchId, copy)} and change ->> 'kind' in ('create_database', 'drop_database'))`)
  await tx.rows(sql`
    update database set branch_id = ${copy.id}, name = repeat(' ', 64) || name
     where branch_id = ${branchId} and name not in (
      ${changedSince(branchId, copy)} and change ->> 'kind' = 'create_database')`)
  await tx.rows(
    sql`update database set branch_id = ${branchId} where branch_id = ${copy.id} and octet_length(name) <= 63`,
  )
  await tx.rows(sql`update database set name = substr(name, 65) where branch_id = ${copy.id}`)
  await changeDatabases(tx, branchId, copy)
}

/** Gives the databases of the copy the names and owners that were requested since. */
async function changeDatabases(tx: Db, branchId: string, copy: Branch): Promise<void> {
  const changes = await tx.rows<{ name: string; to: string | null; owner: string | null }>(sql`
    select change ->> 'name' as name, change ->> 'to' as to, change ->> 'owner' as owner from config_change
     where branch_id = ${branchId} and created_at > ${copy.created_at}
       and change ->> 'kind' in ('rename_database', 'set_database_owner') order by id`)
  for (const { name, to, owner } of changes)
    await tx.rows(sql`
      update database d set name = coalesce(${to}, name), owner_name = coalesce(${owner}, owner_name),
             updated_at = clock_timestamp()
       where branch_id = ${branchId} and name = ${name}
         and not exists (select from database o where o.branch_id = ${branchId} and o.name = ${to})`)
}

async function exchangeChanges(tx: Db, branchId: string, copy: Branch): Promise<void> {
  await tx.rows(sql`
    update config_change set branch_id = ${copy.id}, id = - id
     where branch_id = ${branchId} and created_at <= ${copy.created_at}`)
  await tx.rows(sql`update config_change set branch_id = ${branchId} where branch_id = ${copy.id} and id > 0`)
  await tx.rows(sql`update config_change set id = - id where branch_id = ${copy.id}`)
}
