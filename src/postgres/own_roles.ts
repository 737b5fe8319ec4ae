import type pg from 'pg'
import { ADMIN, LOGIN_READER } from './own_session.ts'

/**
 * The roles that may use the server's files and programs. Before Postgres 16 a role that may create roles may grant all
 * roles but superusers (its manual, CREATE ROLE). So these become superusers, with no login and no member.
 */
const OF_SERVER = `('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')`

interface OwnRolesState {
  readonly version: number
  readonly hasReader: boolean
}

// Two workers may do this at once. A DO block would load PL/pgSQL, which takes longer than all the rest.
const LOCK = `
  begin;
  select pg_advisory_xact_lock(1);
  select current_setting('server_version_num')::int as version,
         exists (select from pg_authid where rolname = '${LOGIN_READER}') as "hasReader"`

/** Before Postgres 17 there is no transaction_timeout, and a session cannot pin it. */
const LIMIT_NO_TRANSACTIONS = [ADMIN, LOGIN_READER].map((role) => `alter role ${role} set transaction_timeout = 0`)

/**
 * Gives Neap's own roles in a server these verifiers, in one transaction.
 * @param also a statement of the same transaction
 */
export async function setOwnRoles(
  session: pg.Client,
  { admin, reader }: { readonly admin: string; readonly reader: string },
  also?: string,
): Promise<void> {
  const [, , found] = (await session.query(LOCK)) as unknown as [unknown, unknown, pg.QueryResult<OwnRolesState>]
  const { version, hasReader } = found.rows[0] as OwnRolesState
  const statements = [
    ...(hasReader ? [] : [`create role ${LOGIN_READER}`]),
    ...(version >= 170000 ? LIMIT_NO_TRANSACTIONS : []),
    ...(version < 160000
      ? [`update pg_authid set rolsuper = true where rolname in ${OF_SERVER} and not rolsuper`]
      : []),
    `alter role ${LOGIN_READER} with login nosuperuser nocreatedb nocreaterole noinherit password '${reader}'`,
    `grant connect on database neap to ${LOGIN_READER}`,
    `grant select (rolname, rolpassword) on pg_authid to ${LOGIN_READER}`,
    `alter role ${ADMIN} password '${admin}'`,
    ...(also === undefined ? [] : [also]),
    'commit',
  ]
  await session.query(statements.join(';\n'))
}
