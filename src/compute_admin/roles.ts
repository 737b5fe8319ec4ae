import type { SeenConfig } from '../catalog/branch_config.ts'
import type { Change } from '../catalog/config_change.ts'
import { OWN_ROLES } from '../postgres/own_session.ts'
import { type AdminSession, identifier, literal } from './session.ts'

/** Limits of the roles and databases of a branch. */
export interface ConfigLimits {
  readonly rolesLimit: number
  readonly databasesLimit: number
}

/**
 * Reads the roles and databases of users, without Neap's own, those of Postgres itself, and those that SQL made beyond
 * the limits; oldest first. Names of roles that begin with `neap_` are Neap's: such a role cannot log in.
 */
export async function readConfig(session: AdminSession, limits: ConfigLimits): Promise<SeenConfig> {
  const roles = await session.query<SeenConfig['roles'][number]>(
    `select rolname as name, rolcanlogin as login, left(rolpassword, ${MAX_VERIFIER}) as verifier from pg_authid
      where rolname !~ '^(neap|pg)_' order by oid limit $1`,
    [limits.rolesLimit],
  )
  // A limit of -2 marks a database that an interrupted DROP DATABASE has left.
  const databases = await session.query<SeenConfig['databases'][number]>(
    `select datname as name, pg_get_userbyid(datdba) as owner_name from pg_database
      where datname not in ('neap', 'postgres', 'template0', 'template1') and datconnlimit <> -2 order by oid limit $1`,
    [limits.databasesLimit],
  )
  return { roles, databases }
}

/** Limit of a verifier in characters; those that Postgres makes have 133. */
const MAX_VERIFIER = 1_024

/** Attributes of the roles that the API makes: no superuser, but able to manage its own roles and databases. */
const ATTRIBUTES = 'inherit createrole createdb bypassrls'
const GROUP = 'neap_superuser'

/** Postgres will never accept the change; the message is for users. */
export class ChangeRefused extends Error {
  override readonly name = 'ChangeRefused'
}

/**
 * Creates a role, or gives one that SQL has created meanwhile the attributes of the API's roles. Passwords arrive as
 * SCRAM verifiers, so that Postgres stores the same verifier as the catalog (Postgres manual, CREATE ROLE).
 */
export async function createRole(session: AdminSession, change: Change & { kind: 'create_role' }): Promise<void> {
  const name = identifier(change.name)
  const login = change.verifier ? `login password ${literal(change.verifier)}` : 'nologin'
  const verb = (await roleOid(session, change.name)) ? 'alter' : 'create'
  await session.query(`${verb} role ${name} ${ATTRIBUTES} ${login}`)
  // In Postgres 15 a role with CREATEROLE can drop this group as well.
  if (await roleOid(session, GROUP)) await session.query(`grant ${GROUP} to ${name}`)
}

/**
 * Gives the API's roles REPLICATION if their project enables logical replication, and takes it from all other roles of
 * users: a role that may replicate chooses its decoding library, and reads the files of all databases (Postgres manual,
 * CREATE ROLE).
 */
export async function ensureReplication(session: AdminSession, enabled: boolean): Promise<void> {
  const roles = await session.query<{ name: string; replicates: boolean }>(
    `select rolname as name, rolreplication as replicates from pg_authid
      where rolname not in ${OWN_ROLES} and rolname !~ '^pg_' and not rolsuper and rolreplication
            is distinct from ($1 and coalesce(pg_has_role(oid, to_regrole($2)::oid, 'member'), false))
        and rolname <> $2`,
    [enabled, GROUP],
  )
  for (const { name, replicates } of roles)
    await session.query(`alter role ${identifier(name)} ${replicates ? 'noreplication' : 'replication'}`)
}

/** Sets the password of a role. Errors: ChangeRefused (the role no longer exists). */
export async function setPassword(session: AdminSession, change: Change & { kind: 'set_password' }): Promise<void> {
  if (!(await roleOid(session, change.name))) throw new ChangeRefused('it was dropped or renamed by SQL')
  await session.query(
    `alter role ${identifier(change.name)} password ${change.verifier === null ? 'null' : literal(change.verifier)}`,
  )
}

/**
 * Prepares a role to be dropped: it cannot log in, its sessions are ended, its objects go to the owner of their
 * database, and privileges that it was granted or has granted are revoked (Postgres manual, "Dropping Roles"). In
 * Postgres' own databases, which are the superuser's, its objects are dropped instead: a user's object must not become
 * a superuser's. Returns whether the role exists. Errors: ChangeRefused (it owns a database).
 */
export async function disownRole(session: AdminSession, name: string): Promise<boolean> {
  const oid = await roleOid(session, name)
  if (!oid) return false
  const owned = await session.query<{ name: string }>('select datname as name from pg_database where datdba = $1', [
    oid,
  ])
  if (owned.length > 0)
    throw new ChangeRefused(
      `it owns the database ${owned.map((database) => `"${database.name}"`).join(', ')}; give it another owner first`,
    )
  const role = identifier(name)
  await session.query(`alter role ${role} nologin`)
  await session.query('select pg_terminate_backend(pid, 1000) from pg_stat_activity where usesysid = $1', [oid])
  const places = await session.query<{ name: string; owner: string; ours: boolean }>(
    `select d.datname as name, o.rolname as owner, o.rolsuper as ours
       from pg_database d join pg_roles o on o.oid = d.datdba
      where d.oid in (select dbid from pg_shdepend where refclassid = 'pg_authid'::regclass and refobjid = $1
                      union select subdbid from pg_subscription where subowner = $1)`,
    [oid],
  )
  for (const place of places) {
    await inDatabase(session, place.name, async (there) => {
      if (!place.ours) await there.query(`reassign owned by ${role} to ${identifier(place.owner)}`)
      await there.query(`drop owned by ${role}`)
    })
  }
  await session.query(`drop owned by ${role}`)
  return true
}

/**
 * Runs `work` in a user's database, even if it is closed to connections. Settings that its owner has made for all
 * sessions must not change the superuser's identity, and event triggers do not run.
 */
export async function inDatabase<T>(
  session: AdminSession,
  database: string,
  work: (session: AdminSession) => Promise<T>,
): Promise<T> {
  const allow = (open: boolean) =>
    session.query(`alter database ${identifier(database)} with allow_connections ${String(open)}`)
  const [found] = await session.query<{ open: boolean }>(
    'select datallowconn as open from pg_database where datname = $1',
    [database],
  )
  if (!found?.open) await allow(true)
  try {
    return await session.beside(database, async (there) => {
      await there.query('set session authorization default')
      await there.query('set role none')
      await there.query(`select set_config(name, 'off', false) from pg_settings where name = 'event_triggers'`)
      await there.query(`set lock_timeout = '1s'`)
      await there.query(`set default_transaction_read_only = off`)
      return work(there)
    })
  } finally {
    if (!found?.open) await allow(false)
  }
}

async function roleOid(session: AdminSession, name: string): Promise<number | undefined> {
  const [role] = await session.query<{ oid: number }>('select oid from pg_authid where rolname = $1', [name])
  return role?.oid
}
