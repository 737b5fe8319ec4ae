import { type AdminSession, identifier, literal } from './session.ts'

export interface WantedRole {
  readonly name: string
  readonly verifier: string | null
}

export interface WantedDatabase {
  readonly name: string
  readonly owner_name: string
}

/** What each role that the API makes is: no superuser, but able to manage its own roles, databases and replication. */
const ATTRIBUTES = 'inherit createrole createdb bypassrls replication'
const GROUP = 'neap_superuser'

/**
 * Makes roles and databases in Postgres what the catalog wants of them. Only adds and alters; running it again changes nothing.
 * Passwords arrive as SCRAM verifiers, so that Postgres holds the very one that the catalog does (Postgres manual, CREATE ROLE).
 */
export async function applyRolesAndDatabases(
  session: AdminSession,
  roles: readonly WantedRole[],
  databases: readonly WantedDatabase[],
): Promise<void> {
  const existing = await session.query<{ name: string; verifier: string | null }>(
    'select rolname as name, rolpassword as verifier from pg_authid',
  )
  const verifiers = new Map(existing.map((role) => [role.name, role.verifier]))
  for (const role of roles) {
    const login = role.verifier ? `login password ${literal(role.verifier)}` : 'nologin'
    if (!verifiers.has(role.name))
      await session.query(`create role ${identifier(role.name)} ${ATTRIBUTES} ${login} in role ${GROUP}`)
    else if (verifiers.get(role.name) !== role.verifier)
      await session.query(`alter role ${identifier(role.name)} ${login}`)
  }
  const present = await session.query<{ name: string; owner: string }>(
    'select datname as name, pg_get_userbyid(datdba) as owner from pg_database',
  )
  const owners = new Map(present.map((database) => [database.name, database.owner]))
  for (const database of databases) {
    const owner = owners.get(database.name)
    const name = identifier(database.name)
    if (owner === undefined) await session.query(`create database ${name} owner ${identifier(database.owner_name)}`)
    else if (owner !== database.owner_name)
      await session.query(`alter database ${name} owner to ${identifier(database.owner_name)}`)
  }
}
