import type { Branch } from './branch.ts'
import type { Db } from './catalog.ts'
import { addChange } from './config_change.ts'
import type { Database } from './database.ts'
import type { Role } from './role.ts'
import { sql } from './sql.ts'

/** The users' roles and databases as read from a compute. */
export interface SeenConfig {
  readonly roles: readonly { readonly name: string; readonly login: boolean; readonly verifier: string | null }[]
  readonly databases: readonly { readonly name: string; readonly owner_name: string }[]
}

/**
 * Locks a branch's roles and databases until the transaction ends, and returns their versions. Every change to them
 * takes this lock first.
 */
export async function lockConfig(
  tx: Db,
  branchId: string,
): Promise<Pick<Branch, 'config_version' | 'applied_version'> | undefined> {
  return tx.row(sql`select config_version, applied_version from branch where id = ${branchId} for no key update`)
}

/** Whether the rows of a branch agree with a reading. */
export async function agreesWith(db: Db, branchId: string, { roles, databases }: SeenConfig): Promise<boolean> {
  const row = await db.row<{ roles: string[]; databases: string[] }>(sql`
    select array(select jsonb_build_array(name, login, verifier)::text
                   from role where branch_id = ${branchId}) as roles,
           array(select jsonb_build_array(name, owner_name)::text
                   from database where branch_id = ${branchId}) as databases`)
  const same = (texts: string[] = [], seen: unknown[][]) => {
    const known = new Set(texts.map((text) => JSON.stringify(JSON.parse(text))))
    return known.size === seen.length && seen.every((values) => known.has(JSON.stringify(values)))
  }
  return (
    same(
      row?.roles,
      roles.map(({ name, login, verifier }) => [name, login, verifier]),
    ) &&
    same(
      row?.databases,
      databases.map(({ name, owner_name }) => [name, owner_name]),
    )
  )
}

/**
 * Sets the rows of a branch to the roles and databases of a reading. A role whose verifier differs loses its stored
 * password. Valid only for a reading that was taken with no changes left to apply.
 */
export async function noteConfig(tx: Db, branch: Pick<Branch, 'id' | 'account_id'>, seen: SeenConfig): Promise<void> {
  const { id, account_id } = branch
  const names = seen.roles.map((role) => role.name)
  const databases = seen.databases.map((database) => database.name)
  // Pipelined: other requests wait for the branch's row, and mostly for its project's.
  await Promise.all([
    tx.rows(sql`delete from role where branch_id = ${id} and name <> all (${names}::text[])`),
    tx.rows(sql`
    insert into role as r (branch_id, account_id, name, login, verifier)
    select ${id}, ${account_id}::uuid, s.name, s.login, s.verifier
      from unnest(${names}::text[], ${seen.roles.map((role) => role.login)}::boolean[],
                  ${seen.roles.map((role) => role.verifier)}::text[]) s (name, login, verifier)
    on conflict (branch_id, name) do update
       set password = case when r.verifier is distinct from excluded.verifier then null else r.password end,
           login = excluded.login, verifier = excluded.verifier, updated_at = clock_timestamp()
     where (r.login, r.verifier) is distinct from (excluded.login, excluded.verifier)`),
    tx.rows(sql`delete from database where branch_id = ${id} and name <> all (${databases}::text[])`),
    tx.rows(sql`
    insert into database as d (branch_id, account_id, name, owner_name)
    select ${id}, ${account_id}::uuid, s.name, s.owner_name
      from unnest(${databases}::text[], ${seen.databases.map((database) => database.owner_name)}::text[])
           s (name, owner_name)
    on conflict (branch_id, name) do update set owner_name = excluded.owner_name, updated_at = clock_timestamp()
     where d.owner_name is distinct from excluded.owner_name`),
  ])
}

/**
 * Sets whether the catalog has all roles and databases: false from a start on, since users may change them by SQL; true
 * after a clean stop.
 */
export async function setNoted(tx: Db, branchId: string, noted: boolean): Promise<void> {
  await tx.rows(sql`update branch set noted = ${noted} where id = ${branchId} and noted <> ${noted}`)
}

/** Whether the catalog has all roles and databases of an idle branch: its compute never ran, or stopped cleanly. */
export async function isNoted(db: Db, branchId: string): Promise<boolean> {
  const row = await db.row<{ noted: boolean }>(sql`select noted from branch where id = ${branchId}`)
  return row?.noted ?? false
}

/**
 * Gives a new branch the roles, databases and pending changes of the branch whose data it gets. Compute ledgers are
 * cloned with the data, so a pending change that the data already contains is not applied again.
 * @param options.withChanges false for data of the past, which they are not about
 */
export async function copyRolesAndDatabases(
  tx: Db,
  fromId: string,
  toId: string,
  { withChanges = true } = {},
): Promise<{ roles: Role[]; databases: Database[] }> {
  // Pipelined, as in `noteConfig`.
  const [, roles, databases] = await Promise.all([
    lockConfig(tx, fromId),
    tx.rows<Role>(sql`
    insert into role (branch_id, name, account_id, login, password, verifier, created_at)
    select ${toId}, name, account_id, login, password, verifier, created_at
      from role where branch_id = ${fromId} order by created_at, name
    returning *`),
    tx.rows<Database>(sql`
    insert into database (branch_id, name, account_id, owner_name, created_at)
    select ${toId}, name, account_id, owner_name, created_at
      from database where branch_id = ${fromId} order by created_at, name
    returning *`),
    tx.rows(sql`
    insert into config_change (branch_id, id, change)
    select ${toId}, id, change from config_change where branch_id = ${fromId} and ${withChanges}::bool`),
    tx.rows(sql`
    update branch b set config_version = b.config_version + 1,
           applied_version = b.config_version
             + case when exists (select from config_change where branch_id = b.id) then 0 else 1 end,
           noted = f.noted or exists (
             select from endpoint e where e.branch_id = f.id and e.current_state = 'active' and e.deleted_at is null)
      from branch f where b.id = ${toId} and f.id = ${fromId}`),
  ])
  return { roles, databases }
}

/**
 * Gives the roles of a branch whose data are of the past the passwords that they have in another one now, and none to
 * those that may not log in there or are not there any more: a password that was changed or taken away since, because
 * others knew it, does not come back.
 */
export async function takePasswords(tx: Db, branchId: string, fromId: string): Promise<void> {
  const roles = await tx.rows<{ name: string; verifier: string | null }>(sql`
    update role r set password = n.password, verifier = n.verifier, updated_at = clock_timestamp()
      from role o left join role f on f.branch_id = ${fromId} and f.name = o.name and f.login,
           lateral (select f.password, f.verifier) n
     where o.branch_id = ${branchId} and r.branch_id = ${branchId} and r.name = o.name and r.login
       and r.verifier is distinct from n.verifier
       and not exists (select from config_change c
                        where c.branch_id = ${fromId} and c.change ->> 'kind' = 'drop_role'
                          and c.change ->> 'name' = r.name)
    returning r.name, r.verifier`)
  if (roles.length === 0) return
  for (const { name, verifier } of roles) await addChange(tx, branchId, { kind: 'set_password', name, verifier })
  await tx.rows(sql`update branch set config_version = config_version + 1 where id = ${branchId}`)
}

/**
 * Queues the passwords of a clone's roles where its parent has others by now: those may have been in the data that was
 * copied after the clone was requested.
 */
export async function keepPasswords(tx: Db, cloneId: string, parentId: string): Promise<void> {
  await lockConfig(tx, cloneId)
  const roles = await tx.rows<{ name: string; verifier: string | null }>(sql`
    select c.name, c.verifier from role c join role p on p.branch_id = ${parentId} and p.name = c.name
     where c.branch_id = ${cloneId} and c.verifier <> p.verifier order by c.name`)
  if (roles.length === 0) return
  for (const { name, verifier } of roles)
    if (verifier !== null) await addChange(tx, cloneId, { kind: 'set_password', name, verifier })
  await tx.rows(sql`update branch set config_version = config_version + 1 where id = ${cloneId}`)
}
